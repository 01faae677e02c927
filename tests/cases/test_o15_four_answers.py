"""O15: missing, empty, failed and too small are four different answers."""

import os

import pytest

import adapter
from adapter import GIB, MIB
from values import check_filled, exact, fill_value, value

SMALL_SIZES = [1, 4095, 4096, 4097, MIB - 1, MIB + 1]
LARGE_SIZES = [2 * GIB + 1, 4 * GIB + 1]


def test_o15_answers(standard, round_number, figure):
    client = standard.client()
    assert client.get("o15-unknown") == adapter.MISS  # (a)
    stored = client.put("o15-empty", b"")  # (b)
    assert stored.what in ("OK", "ERR"), stored
    if stored == adapter.OK:
        assert client.exist("o15-empty") == adapter.YES
        assert client.get("o15-empty") == adapter.Answer("BYTES", b"")
    figure("empty", stored)
    key = "o15-key"
    assert client.put(key, value(key, MIB)) == adapter.OK
    standard.master.pause()  # (c)
    try:
        there = client.exist(key)
    finally:
        standard.master.resume()
    assert there.what in ("YES", "ERR"), there
    figure("paused_master", there)
    memory = bytearray(b"\x5c" * (MIB - 1 + 4096))  # (d)
    got = client.get_into(key, memoryview(memory)[:MIB - 1])
    assert got.what == "ERR", got
    assert memory[MIB - 1:] == b"\x5c" * 4096
    figure("too_small", got)
    for size in SMALL_SIZES:  # (e), as far as S goes
        key = "o15-%d" % size
        buffer = bytearray(size)
        assert client.put(key, value(key, size)) == adapter.OK
        assert client.get_into(key, buffer) == adapter.Answer("BYTES", size)
        assert exact(adapter.Answer("BYTES", buffer), key, size)
    client.close()


def test_o15_large(start, round_number, figure):
    """(e): a call of these sizes moves what takes longer than 5 s on a slow machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory < 24e9:
        pytest.skip("(e) needs 24 GB of memory")
    cluster = start(nodes=1, node_bytes=10 * GIB)
    client = cluster.client(deadline_s=120)
    buffer = memoryview(bytearray(max(LARGE_SIZES)))  # the value goes, and comes, in the same
    for size in LARGE_SIZES:
        key = "o15-%d" % size
        fill_value(buffer[:size], key)
        assert client.put(key, buffer[:size]) == adapter.OK
        for start_at in range(0, size, 64 * MIB):
            part = buffer[start_at:min(size, start_at + 64 * MIB)]
            part[:] = b"\xaa" * len(part)
        assert client.get_into(key, buffer[:size]) == adapter.Answer("BYTES", size)
        check_filled(buffer[:size], key)
        assert client.remove(key) == adapter.OK
    figure("slowest_call_s", client.slowest_s)
    client.close()
