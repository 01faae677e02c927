"""Groups: put by several, read whole."""
import asyncio
import json

import numpy
import pytest

import snowskin
import snowskin.aio
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


@pytest.mark.parametrize("remove", [
    lambda store, group: store.remove("b.1", group=group) is True,
    lambda store, group: store.remove_many(["b.1", "none"], group=group) == [True, False],
    lambda store, group: store.remove_match("prefix", "b.1", group=group) == 1])
def test_a_member_or_its_group_is_removed(store, remove):
    store.put_many([*keys("b", 3), "alone"], [b"x"] * 4, member=[*members("b", 3), None])
    assert remove(store, False)
    assert store.group_stat("b")["state"] == "degraded"
    store.put("b.1", b"x", member=Member("b", 3, 1))
    assert remove(store, True)
    assert store.group_stat("b") is None
    assert store.exists_many([*keys("b", 3), "alone"]) == [False] * 3 + [True]


def test_a_group_is_removed_without_waiting(dev, store):
    store.put_many(keys("b", 3), [b"x"] * 3, member=members("b", 3))

    async def remove():
        async with snowskin.aio.Store(dev.master) as other:
            return await other.remove("b.1", group=True)

    assert asyncio.run(remove()) is True
    assert store.group_stat("b") is None


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


def test_group_of_a_key(dev, store):
    store.put_many(keys("k", 3), [b"x"] * 3, member=members("k", 3, no_offload=True))
    store.put("alone", b"xy")
    found, info = store.exists("k.1", group=True, lease=True)
    assert found and info["group"] == b"k" and info["lease"] > 0
    assert (info["state"], info["size"], info["present"]) == ("complete", 3, 3)
    assert info["no_offload"] and not info["atomic"]
    found, info = store.exists("alone", group=True)
    assert found and info["group"] is None and info["lease"] == 0
    assert (info["state"], info["size"], info["present"]) == ("complete", 1, 1)
    assert store.exists_many(["none", "k.0"], group=True)[0] == (False, None)
    assert store.exists("k.0", group=False) is True
    info = store.group_stat("k.1", by_key=True, lease=True)
    assert info["group"] == b"k" and info["lease"] > 0 and info["missing"] == []
    assert "group" not in store.group_stat("k")
    assert store.group_stat("none", by_key=True) is None
    # What a put of a key that is in another group says: nothing new; its group is told.
    assert store.put("k.1", b"x", member=Member("other", 2, 0)) is None
    with snowskin.Store(dev.master, guard=60) as reader:
        assert reader.exists("k.2")
    with pytest.raises(snowskin.InUseError):
        store.group_remove("k")
    assert store.group_remove("k", force=True) is True


def test_put_of_what_is_elsewhere(dev, store):
    """None: it will not be a member, whatever else is put; False: it is one."""
    store.put("alone", b"x")
    store.put("w.0", b"x", member=Member("w", 2, 0))
    store.put("other", b"x")
    assert store.put_many(["alone", "w.0", "w.1", "other"], [b"x"] * 4,
                          member=[Member("v", 2, 0), Member("v", 2, 1), Member("w", 2, 1),
                                  None]) == [None, None, True, False]
    assert store.put("w.0", b"x", member=Member("w", 2, 0)) is False
    assert store.group_stat("v") is None
    assert store.put("alone", b"x", member=Member("v", 2, 0, adopt=True)) is False
    assert store.group_stat("v")["present"] == 1
    # Who says nothing of groups is told nothing of them.
    with snowskin.Store(dev.master, key_rules="custom", key_pattern=r"(?<id>a)lone",
                        key_members=2) as ruled:
        assert ruled.put("alone", b"x") is False

    async def put():
        async with snowskin.aio.Store(dev.master) as other:
            return await other.put("w.1", b"x", member=Member("v", 2, 1))

    assert asyncio.run(put()) is None


def test_group_of_a_key_without_waiting(dev, store):
    store.put_many(keys("a", 2), [b"x"] * 2, member=members("a", 2))

    async def ask():
        async with snowskin.aio.Store(dev.master) as other:
            return await other.exists_many(["a.0", "none"], group=True)

    (found, info), none = asyncio.run(ask())
    assert found and info["group"] == b"a" and info["present"] == 2
    assert none == (False, None)


def test_missing_members_in_pages(store):
    store.put("m", b"x", member=Member("m", 150, 149))
    info, missing = store.group_stat("m"), []
    while True:
        missing += info["missing"]
        if info["missing_next"] is None:
            break
        info = store.group_stat("m", missing_from=info["missing_next"])
    assert missing == list(range(149))


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


def test_locate_prefix(store):
    blocks = [f"located-{index}" for index in range(600)]
    store.put_many(blocks, [b"abc"] * 600)
    found = json.loads(json.dumps(store.locate_prefix(blocks + ["none"])))
    assert (found["blocks"], found["matched"], found["stop"]) == (601, 600, "NOT_FOUND")
    node, = found["nodes"]
    assert node == {"node": node["node"], "tier": 1, "leading": 600, "blocks": 600, "bytes": 1800}
    assert found["runs"] == [{"node": node["node"], "tier": 1, "count": 600}]
    store.put_many(keys("l", 2), [b"x"] * 2, member=members("l", 2))
    found = store.locate_prefix(["l"], groups=True)
    assert (found["matched"], found["stop"], found["nodes"][0]["bytes"]) == (1, None, 2)
    assert store.locate_prefix(["none"])["nodes"] == []


HASHES = [f"{number:064x}" for number in range(4)]


def pages(rank, hashes=HASHES):
    """Keys of SGLang: K and V of a rank's share of each page."""
    return [f"{page}_{rank}_{part}" for page in hashes for part in "kv"]


def test_key_rules_make_groups_of_an_engines_keys(dev, store):
    options = {"key_rules": "sglang", "key_members": 4}
    with snowskin.Store(dev.master, **options) as first, \
         snowskin.Store(dev.master, **options) as second:
        # What is there already, in no group, is taken in: put by one without rules.
        store.put(pages(0)[0], b"x" * 100)
        first.put_many(pages(0), [b"x" * 100] * 8)
        assert store.group_stat(HASHES[0])["state"] == "forming"
        # A plain exists finds members one by one; a match by group does not count halves.
        assert store.exists_many(pages(0)) == [True] * 8
        assert store.match_prefix(HASHES, groups=True)[:2] == (0, "NOT_READY")
        second.put_many(pages(1), [b"y" * 100] * 8)
        info = store.group_stat(HASHES[3])
        assert info["state"] == "complete" and info["size"] == 4
        # Blocks by their ids, or by any key of theirs.
        assert store.match_prefix(HASHES, groups=True)[0] == 4
        assert second.match_prefix([f"{page}_1_v" for page in HASHES], groups=True)[0] == 4
        # A member goes, by an engine that knows no groups: nobody takes the rest for whole.
        store.remove(f"{HASHES[2]}_0_v", force=True)
        assert first.match_prefix(HASHES, groups=True)[:2] == (2, "GROUP_BROKEN")
        assert first.put(f"{HASHES[2]}_0_v", b"x" * 100)
        assert first.match_prefix(HASHES, groups=True)[0] == 4
        # Other keys are as ever.
        assert first.put("warmup", b"z")
        assert first.get("warmup") == b"z"


@pytest.mark.parametrize("rules, keys, group", [
    ("vllm", [f"m@tp_rank:{r}@pcp0@dcp0@pp_rank:{r}@group:0@abc" for r in range(3)],
     "m@tp_rank:@pcp0@dcp0@pp_rank:@group:@abc"),
    ("lmcache", [f"m@3@{r}@abc@bfloat16" for r in range(3)], "m@3@@abc@bfloat16"),
])
def test_open_groups_by_key_rules(dev, store, rules, keys, group):
    with snowskin.Store(dev.master, key_rules=rules) as engine:
        engine.put_many(keys, [b"1"] * 3)
        info = store.group_stat(group)
        assert (info["state"], info["present"]) == ("open", 3)
        assert store.match_prefix([group], groups=True, members=3)[0] == 1
        assert engine.match_prefix(keys[:1], groups=True, members=3)[0] == 1
        assert engine.match_prefix(keys[:1], groups=True, members=4)[0] == 0


def test_key_rules_of_ones_own(dev, store):
    pattern = "(?<id>page-[0-9]+)/(?<index>[0-9]+)"
    options = {"key_rules": "custom", "key_pattern": pattern, "key_members": 2}
    with snowskin.Store(dev.master, **options) as engine:
        engine.put("page-7/1", b"b")
        assert store.group_stat("page-7")["missing"] == [0]
        engine.put("page-7/0", b"a")
        assert store.group_get("page-7") == [b"a", b"b"]
    for wrong in ({"key_rules": "custom"},
                  {"key_rules": "sglang", "key_pattern": "(?<id>a)"},
                  {"key_rules": "custom", "key_pattern": "(?<id>"}, {"key_rules": "nobody"}):
        with pytest.raises((snowskin.InvalidError, ValueError), match="key_rules|pattern"):
            snowskin.Store(dev.master, **wrong)
