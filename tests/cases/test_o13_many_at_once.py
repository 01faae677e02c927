"""O13: thirty-two clients at once, no ports given; then IPv6."""

import socket
import time

import pytest

from adapter import MIB, OK
from children import Barrier, Child
from values import exact, value

CLIENTS, ROUNDS, KEYS, SIZE = 32, 5, 10, 65536
SET_UP_S = 15
WAIT_S = 60


def key_of(number, index):
    return "o13-%d-%d" % (number, index)


def take_part(tell, cluster, barrier, number):
    barrier.wait(WAIT_S)
    began = time.monotonic()
    client = cluster.client(contribute=16 * MIB)
    tell((time.monotonic() - began, client.endpoint()))
    for index in range(KEYS):
        key = key_of(number, index)
        stored = client.put(key, value(key, SIZE))
        assert stored == OK, stored
    barrier.wait(WAIT_S)
    for other in (1, 7, 19):
        for index in range(KEYS):
            key = key_of((number + other) % CLIENTS, index)
            got = client.get(key)
            assert exact(got, key, SIZE), got
    barrier.wait(WAIT_S)  # nobody takes its memory away before all have read
    client.close()


def play(cluster):
    """-> the longest time of a set-up"""
    barrier = Barrier(CLIENTS)
    children = [Child(take_part, cluster, barrier, number) for number in range(CLIENTS)]
    told = [child.hear() for child in children]
    for child in children:
        child.end()
    assert len({endpoint for _, endpoint in told}) == CLIENTS, told
    slowest = max(took for took, _ in told)
    assert slowest < SET_UP_S, told
    return slowest


def test_o13(start, round_number, figure):
    cluster = start(nodes=0)
    figure("slowest_set_up_s", max(play(cluster) for _ in range(ROUNDS)))


def test_o13_ipv6(start, round_number, figure):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 loopback here")
    cluster = start(nodes=0, host="[::1]")
    figure("slowest_set_up_s", play(cluster))
