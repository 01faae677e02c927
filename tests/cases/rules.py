"""Conditions that many cases ask for."""

import time

from adapter import BYTES_NOW, MIB, OBJECT_OVERHEAD
from values import value

SETTLE_S = 15  # a writer's host may vanish silently, design.md section 8


def wait_for(condition, seconds, what, tell=lambda: ""):
    """Asks again until it holds -> seconds that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + seconds:
            raise AssertionError("not within %g s: %s %s" % (seconds, what, tell()))
        time.sleep(0.02)
    return time.monotonic() - began


def pace(began, interval_s, index):
    """Until the index-th tick of a clock that started at `began`."""
    time.sleep(max(0, began + interval_s * index - time.monotonic()))


def check_numbers(cluster, attached=None):
    """What the store tells of itself adds up once nothing is under way; emptied, it is empty.
    attached: bytes that are given now, if not the nodes'."""
    client = cluster.client()
    if attached is None:
        attached = len(cluster.nodes) * cluster.node_bytes

    def settled():
        told = client.accounts()
        return told.writing == told.closing == 0 and told.capacity == attached

    try:
        wait_for(settled, SETTLE_S, "writes and removals end, capacity is that of the nodes",
                 tell=lambda: client.accounts()._replace(sizes=[]))
        told = client.accounts()
        assert_sane(client.counters(), attached)
        assert told.used == sum(told.node_used), told
        assert told.used + told.free == told.ready <= told.capacity, told
        assert told.keys == len(told.sizes), told
        assert is_near(told.used + told.silent, told.sizes), told
        assert client.remove_all().what == "OK"
        wait_for(lambda: client.stats()[:3] == (0, attached, 0), SETTLE_S, "all is removed",
                 tell=client.stats)
    finally:
        client.close()


def is_near(used, sizes):
    """Used bytes are those of the live objects, within 5 % and what the store documents."""
    live = sum(sizes)
    return live <= used <= live * 1.05 + len(sizes) * OBJECT_OVERHEAD


def assert_sane(counters, attached):
    """No number is negative, or over ten times of what can be."""
    for name, number in counters.items():
        # A counter of bytes or calls may well go on; one below zero wraps and is far above this.
        bound = 10 * attached if name in BYTES_NOW else 1 << 60
        assert 0 <= number <= bound, "%s is %d" % (name, number)


def fill(client, name, evicted):
    """Puts objects of 1 MiB until the first eviction or refusal -> how many there were before."""
    for number in range(4096):
        key = "%s-%d" % (name, number)
        stored = client.put(key, value(key, MIB))
        if stored.what == "NO_SPACE" or evicted():
            return number
        assert stored.what == "OK", stored
    raise AssertionError("never full")


def cpu_share(seconds):
    """Of one core, that this process takes by itself for so long."""
    began, used = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - used) / (time.monotonic() - began)
