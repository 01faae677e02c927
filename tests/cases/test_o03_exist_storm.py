"""O03: asking whether keys exist must not stop eviction."""

import threading
import time

import adapter
from adapter import MIB
from rules import fill, pace
from values import value

ASKERS, NEW, PER_SECOND = 4, 512, 50


def test_o03(standard, round_number, figure):
    client = standard.client()
    filled = fill(client, "old", client.evicted)
    keys = ["old-%d" % number for number in range(filled)]
    done = threading.Event()
    asked, wrong = [0] * ASKERS, []

    def ask(number):
        mine = standard.client()
        while not done.is_set():
            answers = mine.batch_exist(keys)
            wrong.extend(a for a in answers if a not in (adapter.YES, adapter.NO))
            asked[number] += 1
        mine.close()

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(ASKERS)]
    for asker in askers:
        asker.start()
    good, slowest, began = 0, 0, time.monotonic()
    try:
        for number in range(NEW):
            pace(began, 1 / PER_SECOND, number)
            key = "new-%d" % number
            content = value(key, MIB)
            started = time.monotonic()
            stored = client.put(key, content)
            took = time.monotonic() - started
            slowest = max(slowest, took)
            good += stored == adapter.OK and took < 2
    finally:
        done.set()
        for asker in askers:
            asker.join()
    figure("ok", good)
    figure("slowest_put_s", slowest)
    figure("batches_asked", sum(asked))
    assert not wrong, wrong[:3]
    assert min(asked) > 0
    assert good >= 510, good
    client.close()
