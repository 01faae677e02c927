"""O01: a writer dies in the middle of a put."""

import time

import adapter
from adapter import MIB
from children import Child, at
from rules import fill
from values import exact, value

LARGE = 128 * MIB
STEP_S = 0.0015


def write(tell, cluster, key):
    client = cluster.client()
    content = value(key, LARGE)
    tell(time.monotonic())
    stored = client.put(key, content)
    tell(stored)
    time.sleep(60)  # to be killed


def test_o01(standard, round_number, figure):
    client = standard.client()
    fresh = fill(client, "fresh", client.evicted)
    assert client.remove_all() == adapter.OK
    slowest, readable = 0, 0
    for i in range(1, 21):
        key = "o01-%d" % i
        writer = Child(write, standard, key)
        at(writer.hear() + i * STEP_S)
        writer.kill()
        killed = time.monotonic()
        there, got = client.exist(key), client.get(key)
        if there == adapter.YES:
            assert exact(got, key, LARGE), got
        else:
            assert there == adapter.NO and (got == adapter.MISS or exact(got, key, LARGE)), got
        tick, stored = 0, None
        while stored not in (adapter.OK, adapter.EXISTS):
            at(killed + 0.2 * tick)
            tick = int((time.monotonic() - killed) / 0.2) + 1
            stored = client.put(key, value(key, MIB, "second"))
            took = time.monotonic() - killed
            assert took < 10, "after %.1f s: %s" % (took, stored)
        slowest = max(slowest, took)
        readable += stored == adapter.EXISTS
        got = client.get(key)
        assert exact(got, key, *((LARGE,) if stored == adapter.EXISTS else (MIB, "second"))), got
    assert client.remove_all() == adapter.OK
    before = client.evicted()
    again = fill(client, "again", lambda: client.evicted() > before)
    figure("key_free_s", slowest)
    figure("finished_first", readable)
    figure("refill", again / fresh)
    assert again >= 0.95 * fresh, (fresh, again)
    client.close()
