"""Values whose every byte follows from key and size, so that a reader can tell what is exact."""

import hashlib

MIB = 1 << 20


def blocks(key, size, writer=""):
    """Block after block of a value.  A block is SHAKE-256 of the key (1 MiB less 8 bytes) and its
    own number (8 bytes)."""
    text = hashlib.shake_256((key + str(writer)).encode()).digest(min(size, MIB - 8))
    for number in range(-(-size // MIB)):
        yield (text + number.to_bytes(8, "little"))[:size - number * MIB]


def value(key, size, writer=""):
    """`writer`: where several put the same key."""
    return b"".join(blocks(key, size, writer))


def exact(answer, key, size, writer=""):
    """Whether it tells the whole value.  Success with other bytes fails the case wherever it
    shows."""
    if answer.what != "BYTES":
        return False
    assert answer.value == value(key, size, writer), "wrong bytes of %s" % key
    return True


def fill_value(buffer, key):
    """For those too large to have twice."""
    for number, block in enumerate(blocks(key, len(buffer))):
        buffer[number * MIB:number * MIB + len(block)] = block


def check_filled(buffer, key):
    for number, block in enumerate(blocks(key, len(buffer))):
        assert buffer[number * MIB:number * MIB + len(block)] == block, "wrong bytes of %s" % key
