"""O05: the master restarts, everyone else stays."""

import time

import adapter
from adapter import MIB
from rules import pace
from values import exact, value


def test_o05(standard, round_number, figure):
    client = standard.client()
    old, new = (["%s-%d" % (name, i) for i in range(200)] for name in ("old", "new"))
    for key in old:
        assert client.put(key, value(key, MIB)) == adapter.OK
    standard.kill_master()
    time.sleep(3)  # the case's own
    standard.start_master()
    listens, probes, stored = time.monotonic(), 0, None
    while stored != adapter.OK:
        pace(listens, 0.25, probes)
        stored = client.put("probe-%d" % probes, b"probe")
        probes += 1
        assert time.monotonic() - listens < 15, stored
    figure("first_ok_s", time.monotonic() - listens)
    for key in new:
        assert client.put(key, value(key, MIB)) == adapter.OK
    kept = 0
    for key in old:
        got = client.get(key)
        kept += exact(got, key, MIB)
        assert got.what in ("BYTES", "MISS"), got
    for key in new:
        assert exact(client.get(key), key, MIB), key
    figure("old_keys_kept", kept / len(old))
    client.close()
