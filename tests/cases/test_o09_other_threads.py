"""O09: other Python threads keep running."""

import threading
import time

from adapter import GIB, MIB, OK
from children import Child
from values import exact, value

RUNS = 3  # the best of them counts: what else runs here makes gaps too
GAP_S = 0.1


class Ticker:
    """A thread that records the time each millisecond."""

    def __init__(self):
        self.stamps, self.done = [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            self.stamps.append(time.monotonic())
            time.sleep(0.001)

    def gap_of(self, call, *arguments):
        """-> what the call says, the longest time without a stamp from its start to its end."""
        began = time.monotonic()
        said = call(*arguments)
        ended = time.monotonic()
        stamps = [began, *(t for t in list(self.stamps) if began < t < ended), ended]
        return said, max(b - a for a, b in zip(stamps, stamps[1:]))

    def stop(self):
        self.done.set()
        self.thread.join()


def engine(tell, cluster):
    large = value("o09-large", 256 * MIB)
    keys = ["o09-%d" % i for i in range(256)]
    contents = [value(key, MIB) for key in keys]
    ticker, gaps = Ticker(), {}
    client, gaps["open"] = ticker.gap_of(lambda: cluster.client(contribute=2 * GIB))
    stored, gaps["put"] = ticker.gap_of(client.put, "o09-large", large)
    assert stored == OK, stored
    got, gaps["get"] = ticker.gap_of(client.get, "o09-large")
    assert exact(got, "o09-large", 256 * MIB), got
    assert client.batch_put(keys, contents) == [OK] * len(keys)
    got, gaps["batch_get"] = ticker.gap_of(client.batch_get, keys)
    assert all(exact(answer, key, MIB) for key, answer in zip(keys, got))
    _, gaps["close"] = ticker.gap_of(client.close)
    ticker.stop()
    tell(gaps)


def test_o09(start, round_number, figure):
    cluster = start(nodes=0)
    best = {}
    for _ in range(RUNS):
        child = Child(engine, cluster)
        for call, gap in child.hear().items():
            best[call] = min(best.get(call, gap), gap)
        child.end()
    for call, gap in best.items():
        figure("gap_%s_s" % call, gap)
    assert max(best.values()) < GAP_S, best
