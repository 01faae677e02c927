"""O04: writing four times the capacity."""

import threading
import time

import adapter
from adapter import MIB
from values import exact, value

THREADS, BATCHES, ITEMS = 16, 4, 32


def test_o04(standard, round_number, figure):
    client = standard.client()
    capacity = client.stats().capacity
    batches = [["o04-%d-%d" % (batch, item) for item in range(ITEMS)]
               for batch in range(THREADS * BATCHES)]
    contents = [[value(key, MIB) for key in keys] for keys in batches]
    ended, bad, samples = [], [], []
    done = threading.Event()

    def write(thread):
        for batch in range(thread * BATCHES, (thread + 1) * BATCHES):
            answers = client.batch_put(batches[batch], contents[batch])
            ended.append((time.monotonic(), batch))
            bad.extend(answer for answer in answers if answer != adapter.OK)

    def sample():
        mine = standard.client()
        while not done.is_set():
            samples.append(mine.stats().used)
            done.wait(0.1)
        mine.close()

    writers = [threading.Thread(target=write, args=(thread,)) for thread in range(THREADS)]
    sampler = threading.Thread(target=sample)
    began = time.monotonic()
    for thread in [sampler, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    took = time.monotonic() - began
    done.set()
    sampler.join()
    full = next((i for i, used in enumerate(samples) if used > 0.8 * capacity), len(samples))
    lowest = min(samples[full:], default=0) / capacity
    last = [key for _, batch in sorted(ended) for key in batches[batch]][-100:]
    readable = sum(exact(client.get(key), key, MIB) for key in last)
    figure("not_ok", len(bad))
    figure("lowest_used", lowest)
    figure("last_readable", readable)
    figure("gib_per_s", len(batches) * ITEMS / 1024 / took)
    assert len(ended) == len(batches)
    assert len(bad) <= 0.001 * len(batches) * ITEMS, bad[:3]
    assert full < len(samples), "never seen full"
    assert lowest >= 0.5, samples
    assert readable >= 90, readable
    client.close()
