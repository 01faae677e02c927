"""What a configuration says of eviction: pins, and groups as the core has them."""
import time

import pytest
import snowskin

from conftest import MIB, Master, Memory, make_store
from mooncake import cli
from mooncake.store import ReplicateConfig, SoftPinAction

NO_SPACE = -200


def master_as_commanded(*flags):
    """A master with the options that mooncake_master gives it."""
    command = cli.master_command(cli.master_options(flags, lambda text: None))
    names = ("--hard-pin", "--soft-pin", "--soft-pin-max")
    kept = [word for at, word in enumerate(command) if word in names or command[at - 1] in names
            or word.startswith("--evict")]
    return Master(*kept)


@pytest.fixture
def commanded():
    running = master_as_commanded("--default_kv_soft_pin_ttl=1500")
    yield running
    running.kill()


def pinned(soft=False):
    config = ReplicateConfig()
    if soft:
        config.soft_pin_action = SoftPinAction.ENABLE
    else:
        config.with_hard_pin = True
    return config


def fill(store, count, config, prefix):
    """Puts objects of 1 MiB: their codes."""
    value = Memory(MIB)
    return [store.put_from("%s%d" % (prefix, index), value.at, MIB, config)
            for index in range(count)]


def test_hard_pins_take_the_whole_pool(commanded):
    store = make_store(commanded, 16 * MIB)
    codes = fill(store, 20, pinned(), "hard")
    kept = codes.count(0)
    assert kept >= 14 and set(codes[kept:]) == {NO_SPACE}  # never stored without
    assert fill(store, 1, None, "other") == [NO_SPACE]
    assert store.batch_is_exist(["hard%d" % index for index in range(kept)]) == [1] * kept
    assert store.batch_remove(["hard0", "hard1"], force=True) == [0, 0]
    assert fill(store, 1, pinned(), "again") == [0]
    assert store.close() == 0


def test_soft_pins_last_as_the_master_says(commanded):
    store = make_store(commanded, 16 * MIB)
    began = time.monotonic()
    assert fill(store, 4, pinned(soft=True), "soft") == [0] * 4
    assert fill(store, 30, None, "other") == [0] * 30
    if time.monotonic() - began < 1.4:
        assert store.batch_is_exist(["soft%d" % index for index in range(4)]) == [1] * 4
    time.sleep(max(0, began + 1.7 - time.monotonic()))  # the time that the flag says
    assert fill(store, 30, None, "more") == [0] * 30
    assert store.batch_is_exist(["soft%d" % index for index in range(4)]) == [0] * 4
    assert store.close() == 0


def test_soft_pins_of_a_length(commanded):
    """What is said of one is at most what the master is set to."""
    def config(ttl_ms, action=SoftPinAction.ENABLE):
        made = ReplicateConfig()
        made.soft_pin_action, made.soft_pin_ttl_ms = action, ttl_ms
        return made

    bounded = master_as_commanded("--max_kv_soft_pin_ttl=90s")
    for master, longest in ((commanded, 86400000), (bounded, 90000)):
        store = make_store(master, 16 * MIB)
        for number, (ttl_ms, code) in enumerate((
                (0, 0), (1000, 0), (longest, 0), (longest + 1, -600), (2**32 - 1, -600),
                (2**63, -600))):
            assert store.put("one%d" % number, b"x", config(ttl_ms)) == code, ttl_ms
            assert store.upsert_batch(["two%d" % number], [b"x"], config(ttl_ms)) == code, ttl_ms
        assert store.is_exist("one3") == 0
        assert store.put("three", b"x", config(1000, SoftPinAction.PRESERVE)) == -600
        assert store.close() == 0
    bounded.kill()


def test_soft_pins_that_are_not_evicted():
    master = master_as_commanded("--allow_evict_soft_pinned_objects=false")
    store = make_store(master, 16 * MIB)
    codes = fill(store, 20, pinned(soft=True), "soft")
    kept = codes.count(0)
    assert kept >= 14 and set(codes[kept:]) == {NO_SPACE}
    assert store.batch_is_exist(["soft%d" % index for index in range(kept)]) == [1] * kept
    assert store.close() == 0
    master.kill()


# ---- groups ----

def grouped(ids, **more):
    config = ReplicateConfig()
    config.group_ids = ids
    for name, value in more.items():
        setattr(config, name, value)
    return config


@pytest.fixture
def look(master):
    with snowskin.Store(master.address) as native:
        yield native


def put(store, keys, config):
    memory = Memory(b"x" * 8)
    return store.batch_put_from(keys, [memory.at] * len(keys), [8] * len(keys), config)


def test_group_ids_are_open_groups(store, look, key):
    assert put(store, [key + "k", key + "v", key + "o"], grouped([key, key, ""])) == [0, 0, 0]
    group = look.group_stat(key)
    assert (group["state"], group["present"], group["size"]) == ("open", 2, 0)
    assert put(store, [key + "2"], grouped(["g" * 300])) == [0]  # stored, of none
    assert store.put(key + "3", b"x", grouped([key])) == 0
    assert look.group_stat(key)["present"] == 3
    assert look.group_remove(key) and store.batch_is_exist([key + "k", key + "o"]) == [0, 1]


def test_groups_of_a_size(store, look, key):
    """Two ranks, each by itself; the scheduler sees when the block is whole."""
    blocks = ["%s-%d" % (key, block) for block in range(3)]
    for rank in range(2):
        config = grouped(blocks, group_sizes=2, group_indexes=rank,
                         group_parents=["", *blocks[:-1]])
        assert look.match_prefix(blocks, groups=True)[0] == 0
        assert put(store, ["%s/%d" % (block, rank) for block in blocks], config) == [0, 0, 0]
    assert look.match_prefix(blocks, groups=True)[0] == 3
    group = look.group_stat(blocks[2])
    assert (group["state"], group["present"], group["size"]) == ("complete", 2, 2)
    assert store.remove(blocks[1] + "/0", force=True) == 0
    assert look.match_prefix(blocks, groups=True)[0] == 1
    assert put(store, [blocks[1] + "/0"], grouped([blocks[1]], group_sizes=[2],
                                                  group_indexes=[0])) == [0]
    assert look.match_prefix(blocks, groups=True)[0] == 3


def test_groups_that_are_refused(store, key):
    config = grouped([key], group_sizes=2, group_indexes=0)
    assert put(store, [key + "a"], config) == [0]
    assert put(store, [key + "b"], config) == [-600]  # the index has its key
    assert put(store, [key + "b"], grouped([key], group_sizes=3)) == [-600]
    assert put(store, [key + "b"], grouped([key], group_sizes=2, group_indexes=2)) == [-600]
    assert put(store, [key + "b"], grouped(["g" * 300], group_sizes=2)) == [-600]
    for wrong in (grouped([key, key]), grouped([key], group_sizes=[2, 2]),
                  grouped([key], group_indexes=[]), grouped([key], group_parents=["", ""]),
                  grouped(None, group_sizes=2), grouped(None, group_parents=[key])):
        assert put(store, [key + "b"], wrong) == [-600]
    config = ReplicateConfig()
    for name, value in (("group_sizes", "2"), ("group_sizes", [-1]), ("group_indexes", 1.5),
                        ("group_parents", key), ("group_parents", [1])):
        with pytest.raises(TypeError):
            setattr(config, name, value)


def test_groups_of_put_sessions(store, look, key):
    memory = Memory(b"x" * 8)
    keys = [key + "a", key + "b"]
    config = grouped([key, key], group_sizes=2, group_indexes=[0, 1])
    assert store.batch_put_session_start(keys, [8, 8], config) == [0, 0]
    assert store.batch_put_from_multi_buffer_ranges(keys, [[memory.at]] * 2, [[8]] * 2,
                                                    [[0]] * 2) == [8, 8]
    assert look.group_stat(key)["state"] == "forming"
    assert store.batch_put_session_end(keys) == [0, 0]
    assert look.group_stat(key)["state"] == "complete"


def test_a_group_is_evicted_whole(own_master, key):
    store = make_store(own_master, 16 * MIB)
    value = Memory(MIB)
    for block in range(30):
        config = grouped(["%d" % block] * 3)
        keys = ["%s/%d/%d" % (key, block, part) for part in range(3)]
        assert store.batch_put_from(keys, [value.at] * 3, [MIB] * 3, config) == [0] * 3
    there = [sum(store.batch_is_exist(["%s/%d/%d" % (key, block, part) for part in range(3)]))
             for block in range(30)]
    assert set(there) == {0, 3} and there[-1] == 3
    assert store.close() == 0
