"""Groups: put by several, read whole."""
import numpy
import pytest

import snowskin
from snowskin import Member


@pytest.fixture(autouse=True)
def empty(store):
    store.remove_match("all", "", force=True)


def members(group, count, **options):
    return [Member(group, count, index, **options) for index in range(count)]


def keys(group, count):
    return [f"{group}.{index}" for index in range(count)]


def test_whole(store):
    values = [bytes([index]) * 5000 for index in range(4)]
    assert store.group_stat("g") is None
    assert store.put("g.0", values[0], member=Member("g", 4, 0))
    info = store.group_stat("g")
    assert info["state"] == "forming" and info["missing"] == [1, 2, 3]
    with pytest.raises(snowskin.NotReadyError):
        store.group_get("g")
    assert store.put_many(keys("g", 4), values, member=members("g", 4)) == [False, True, True, True]
    info = store.group_stat("g")
    assert info["state"] == "complete" and info["present"] == 4 and info["missing"] == []
    assert store.group_get("g") == values
    assert store.group_get("g", indexes=[1, 3]) == [values[1], values[3]]
    into = [numpy.zeros(5000, dtype=numpy.uint8) for _ in range(4)]
    assert store.group_get_into("g", into) == [5000] * 4
    assert [array.tobytes() for array in into] == values


def test_broken_and_removed(store):
    store.put_many(keys("b", 3), [b"x"] * 3, member=members("b", 3))
    store.remove("b.1")
    assert store.group_stat("b")["state"] == "degraded"
    with pytest.raises(snowskin.GroupBrokenError):
        store.group_get("b")
    assert store.group_remove("b") is True
    assert store.group_remove("b") is False
    assert store.exists_many(keys("b", 3)) == [False] * 3
    with pytest.raises(snowskin.NotFoundError):
        store.group_get("b")


def test_refused(store):
    store.put("r.0", b"x", member=Member("r", 2, 0))
    with pytest.raises(snowskin.GroupSizeMismatchError):
        store.put("r.1", b"x", member=Member("r", 3, 1))
    with pytest.raises(snowskin.GroupIndexConflictError):
        store.put("other", b"x", member=Member("r", 2, 0))
    with pytest.raises(TypeError):
        store.put("r.1", b"x", member=("r", 2))
    with pytest.raises(ValueError):
        store.put_many(["a", "b"], [b"x", b"x"], member=[Member("r", 2)])
    assert store.put_many(["r.1", "alone"], [b"x"] * 2, member=[Member("r", 2), None])
    assert store.group_stat("r")["present"] == 2


def test_atomic(store):
    store.put("a.0", b"x", member=Member("a", 2, 0, atomic=True))
    assert store.exists("a.0") is False
    store.put("a.1", b"y", member=Member("a", 2, 1, atomic=True))
    assert store.exists_many(["a.0", "a.1"]) == [True, True]
    assert store.group_stat("a")["atomic"]


def test_hold(store):
    store.put_many(keys("h", 2), [b"x"] * 2, member=members("h", 2))
    hold = store.group_hold("h", 5)
    assert store.group_hold_join(hold, 5) == hold
    assert store.group_get("h", hold=hold) == [b"x"] * 2
    store.put("h.0", b"z", replace=True)
    with pytest.raises(snowskin.ChangedError):
        store.group_get("h", hold=hold)
    assert store.group_get("h") == [b"z", b"x"]
    assert store.group_hold_leave(hold) is True
    assert store.group_hold_leave(hold) is False


def test_match_prefix(store):
    blocks = [f"block-{index}" for index in range(1500)]
    store.put_many(blocks[:700] + blocks[701:], [b"x"] * 1499)
    matched, stop, runs = store.match_prefix(blocks)
    assert (matched, stop) == (700, "NOT_FOUND")
    assert sum(count for _, _, count in runs) == 700
    store.put(blocks[700], b"x")
    assert store.match_prefix(blocks)[:2] == (1500, None)
    assert store.match_prefix([])[:2] == (0, None)
    for group in ("p", "q"):
        store.put_many(keys(group, 2), [b"x"] * 2, member=members(group, 2))
    assert store.match_prefix(["p", "q", "none"], groups=True)[:2] == (2, "NOT_FOUND")
    with pytest.raises(snowskin.InvalidError):
        store.match_prefix(["p", ""])
