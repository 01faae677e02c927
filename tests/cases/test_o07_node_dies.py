"""O07: a storage node dies."""

import threading
import time

import adapter
from adapter import MIB
from values import exact, value

CALL_S = 3


def put_new(client, results):
    for number in range(100):
        key = "o07-new-%d" % number
        content = value(key, MIB)
        began = time.monotonic()
        stored = client.put(key, content)
        results.append((stored, time.monotonic() - began))


def test_o07(start, round_number, figure):
    cluster = start(nodes=3)
    client, second = cluster.client(), cluster.client()
    keys = ["o07-%d" % i for i in range(300)]
    for key in keys:
        assert client.put(key, value(key, MIB)) == adapter.OK
    victim = cluster.nodes[round_number % 3]
    lost = client.keys_on(victim, MIB)
    assert lost > 0
    cluster.kill_node(victim)
    killed = time.monotonic()
    results = []
    writer = threading.Thread(target=put_new, args=(second, results))
    writer.start()
    slowest, unread = 0, []
    for key in keys:
        began = time.monotonic()
        if not exact(client.get(key), key, MIB):
            unread.append(key)
        slowest = max(slowest, time.monotonic() - began)
    reads_s = time.monotonic() - killed
    writer.join()
    slowest_put = max(took for _, took in results)
    good = sum(stored == adapter.OK and took < CALL_S for stored, took in results)
    figure("reads_s", reads_s)
    figure("slowest_get_s", slowest)
    figure("slowest_put_s", slowest_put)
    figure("puts_ok", good)
    assert len(unread) <= lost, (len(unread), lost)
    assert reads_s < 30 and slowest < CALL_S
    assert len(results) == 100 and good >= 99, results
    time.sleep(max(0, killed + 15 - time.monotonic()))  # the case's own
    assert set(client.batch_exist(unread)) <= {adapter.NO}
    client.close()
    second.close()
