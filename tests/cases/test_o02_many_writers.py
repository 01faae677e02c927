"""O02: many writers, one key."""

import adapter
from adapter import MIB
from children import FORK, Barrier, Child
from values import value

ROUNDS = 200
SIZES = [65536] * 4 + [4 * MIB] * 4


def key_of(number):
    return "o02-%d" % number


def write(tell, cluster, barrier, writer, ended):
    client = cluster.client()
    for number in range(ROUNDS):
        key = key_of(number)
        content = value(key, SIZES[writer], writer)
        barrier.wait()
        stored = client.put(key, content)
        with ended.get_lock():
            ended.value += 1
        barrier.wait()  # all have ended; the poller looks a last time
        tell(stored)
        barrier.wait()  # removed
    client.close()


def poll(tell, cluster, barrier, ended):
    """Tells of each round what it read first, and how often; all reads after a YES are the same."""
    client = cluster.client()
    for number in range(ROUNDS):
        key = key_of(number)
        first, reads, last = None, 0, False
        barrier.wait()
        while not last:
            last = ended.value >= len(SIZES) * (number + 1)
            there = client.exist(key)
            assert there in (adapter.YES, adapter.NO), there
            assert there == adapter.YES or (first is None and not last), "gone again"
            if there == adapter.YES:
                got = client.get(key)
                first = first or got
                assert got.what == "BYTES" and got.value == first.value, got
                reads += 1
        barrier.wait()
        tell((reads, first.value))
        barrier.wait()
    client.close()


def test_o02(standard, round_number, figure):
    barrier = Barrier(len(SIZES) + 2)
    ended = FORK.Value("i", 0)
    writers = [Child(write, standard, barrier, writer, ended) for writer in range(len(SIZES))]
    poller = Child(poll, standard, barrier, ended)
    client = standard.client()
    reads = stored_sum = 0
    for number in range(ROUNDS):
        key = key_of(number)
        barrier.wait(60)
        barrier.wait(60)
        stored = [writer.hear() for writer in writers]
        assert set(stored) <= {adapter.OK, adapter.EXISTS} and adapter.OK in stored, stored
        count, read = poller.hear()
        assert any(read == value(key, size, writer) for writer, size in enumerate(SIZES)), len(read)
        reads, stored_sum = reads + count, stored_sum + stored.count(adapter.OK)
        assert client.remove(key) == adapter.OK
        barrier.wait(60)
    for child in [*writers, poller]:
        child.end()
    client.close()
    figure("reads", reads)
    figure("ok_per_round", stored_sum / ROUNDS)
