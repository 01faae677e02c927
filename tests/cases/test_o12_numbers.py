"""O12: numbers that add up."""

import time

import adapter
from adapter import MIB
from rules import assert_sane, is_near
from values import value

WAIT_S = 5  # the case's own, after each step


def look(cluster, client, objects):
    """After a step: so many objects of 1 MiB, and the nodes that are attached."""
    time.sleep(WAIT_S)
    stats = client.stats()
    attached = len(cluster.nodes) * cluster.node_bytes
    assert stats.capacity == attached, stats
    assert stats.keys == objects and is_near(stats.used, [MIB] * objects), stats
    assert stats.disk == 0
    assert_sane(client.counters(), attached)


def put_hundred(client, name):
    keys = ["%s-%d" % (name, i) for i in range(100)]
    for key in keys:
        assert client.put(key, value(key, MIB)) == adapter.OK
    return keys


def test_o12(standard, round_number, figure):
    client = standard.client()
    keys = put_hundred(client, "o12-a")
    look(standard, client, 100)
    figure("used_of_live", client.stats().used / (100 * MIB))
    for key in keys[:50]:
        assert client.remove(key) == adapter.OK
    look(standard, client, 50)
    assert client.remove_all() == adapter.OK
    look(standard, client, 0)
    for _ in range(3):
        standard.stop_node(standard.nodes[0])
        look(standard, client, 0)
        standard.start_node()
        look(standard, client, 0)
    for _ in range(2):
        standard.kill_master()
        standard.start_master()
        look(standard, client, 0)
    put_hundred(client, "o12-b")
    look(standard, client, 100)
    client.close()
