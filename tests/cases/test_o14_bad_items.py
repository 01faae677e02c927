"""O14: batches with bad items."""

import adapter
from adapter import MIB
from values import exact, value

SIZE = 256 << 10
STORED, TWIN, EMPTY, HUGE = 7, (20, 21), 30, 40


def test_o14(standard, round_number, figure):
    client = standard.client()
    assert client.put("e", value("e", SIZE)) == adapter.OK
    keys = ["o14-%d" % i for i in range(64)]
    keys[STORED], keys[TWIN[1]], keys[EMPTY] = "e", keys[TWIN[0]], ""
    contents = [value(key, SIZE) for key in keys]
    contents[HUGE] = bytes(600 * MIB)
    answers = client.batch_put(keys, contents)
    assert len(answers) == 64
    special = {STORED, *TWIN, EMPTY, HUGE}
    ordinary = [i for i in range(64) if i not in special]
    assert len(ordinary) == 59 and all(answers[i] == adapter.OK for i in ordinary), answers
    assert answers[STORED].what in ("OK", "EXISTS"), answers[STORED]
    twins = [answers[i] for i in TWIN]
    assert adapter.OK in twins and set(twins) <= {adapter.OK, adapter.EXISTS}, twins
    assert answers[EMPTY].what == "ERR", answers[EMPTY]
    assert answers[HUGE].what in ("ERR", "NO_SPACE"), answers[HUGE]
    figure("empty_key", answers[EMPTY])
    figure("too_large", answers[HUGE])
    good = [keys[i] for i in ordinary] + [keys[TWIN[0]]]
    for key in [*good, "e"]:
        assert exact(client.get(key), key, SIZE), key
    asked = [*good[:30], "unknown-1", *good[30:], "unknown-2", good[5], "unknown-3"]
    assert len(asked) == 64
    got = client.batch_get(asked)
    assert len(got) == 64
    for key, answer in zip(asked, got):
        assert answer == adapter.MISS if key.startswith("unknown") else exact(answer, key, SIZE)
    figure("slowest_call_s", client.slowest_s)
    client.close()
