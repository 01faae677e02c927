"""O06: the master dies under load."""

import collections
import threading
import time

import adapter
from adapter import HANG_S, MIB
from children import Child
from rules import cpu_share
from values import value

KEYS = ["o06-%d" % i for i in range(100)]
THREADS, BEFORE_S, AFTER_S = 8, 5, 20


def load(client, number, contents, done, counts):
    """get, get_into, exist, put, over and over; every answer is exact or says what went wrong."""
    buffer, prefill = bytearray(MIB), b"\xaa" * MIB
    turn = 0

    def get(key):
        got = client.get(key)
        assert got.what in ("MISS", "ERR") or got.value == contents[key], "wrong bytes"
        return got

    def get_into(key):
        buffer[:] = prefill
        got = client.get_into(key, buffer)
        assert got.what in ("MISS", "ERR") or (got.value == MIB and buffer == contents[key]), got
        return got

    def exist(key):
        return client.exist(key)

    def put(key):
        return client.put("o06-new-%d-%d" % (number, turn), contents[key])

    while not done.is_set():
        turn += 1
        call = (get, get_into, exist, put)[turn % 4]
        counts[call(KEYS[(turn * 7 + number) % len(KEYS)]).what] += 1


def engine(tell, cluster):
    client = cluster.client()
    contents = {key: value(key, MIB) for key in KEYS}
    done, failures, counts = threading.Event(), [], [collections.Counter() for _ in range(THREADS)]

    def guarded(number):
        try:
            load(client, number, contents, done, counts[number])
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    tell("running")
    done.wait(BEFORE_S + AFTER_S)
    done.set()
    for thread in threads:
        thread.join(HANG_S + 1)
    hung = sum(thread.is_alive() for thread in threads)
    began = time.monotonic()
    client.close()
    closed_s = time.monotonic() - began
    tell((failures, hung, closed_s, cpu_share(3), client.slowest_s,
          sum(counts, collections.Counter())))


def test_o06(standard, round_number, figure):
    client = standard.client()
    for key in KEYS:
        assert client.put(key, value(key, MIB)) == adapter.OK
    client.close()
    child = Child(engine, standard)
    assert child.hear() == "running"
    time.sleep(BEFORE_S)  # the case's own
    standard.kill_master()
    failures, hung, closed_s, idle, slowest_s, counts = child.hear()
    child.end()
    figure("slowest_call_s", slowest_s)
    figure("close_s", closed_s)
    figure("idle_cpu", idle)
    figure("answers", " ".join("%s %d" % item for item in sorted(counts.items())))
    assert not failures and not hung, (failures, hung)
    assert slowest_s <= HANG_S and closed_s < 5 and idle < 0.10
    assert counts["BYTES"] > 100 and counts["ERR"] > 0, "the load was none: %s" % counts
    standard.start_master()  # the numbers are looked at, at the end of each case
