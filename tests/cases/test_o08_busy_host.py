"""O08: the heartbeat while the host program is busy."""

import ctypes
import time

import adapter
from adapter import MIB
from children import Child, Event
from rules import check_numbers, pace
from values import exact, value

KEYS = ["o08-%d" % i for i in range(50)]
BUSY_S, AFTER_S = 30, 15


def contribute(tell, cluster, busy, done):
    client = cluster.client(contribute=256 * MIB)
    tell("ready")
    busy.wait()
    ctypes.PyDLL(None).sleep(BUSY_S)  # holds the interpreter lock all the time
    tell("free again")
    done.wait()
    client.close()


def test_o08(start, round_number, figure):
    cluster = start(nodes=0)
    busy, done = Event(), Event()
    host = Child(contribute, cluster, busy, done)
    assert host.hear() == "ready"
    client = cluster.client()
    for key in KEYS:
        assert client.put(key, value(key, MIB)) == adapter.OK
    busy.set()
    began, slowest = time.monotonic(), 0
    for second in range(BUSY_S + AFTER_S):
        pace(began, 1, second)
        for key in KEYS:
            got = client.get(key)
            assert exact(got, key, MIB), (second, got)
        slowest = max(slowest, time.monotonic() - began - second)
    assert host.hear() == "free again"
    assert client.expiries() == 0
    figure("slowest_look_s", slowest)
    figure("slowest_call_s", client.slowest_s)
    check_numbers(cluster, attached=256 * MIB)
    done.set()
    host.end()
    client.close()
