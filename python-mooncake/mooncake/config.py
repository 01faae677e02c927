"""ReplicateConfig, and the small values of mooncake.store."""
import enum
import operator

UINT64_MAX = 2**64 - 1


class ObjectDataType(enum.IntEnum):
    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class SoftPinAction(enum.IntEnum):
    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ReplicaStatus(enum.IntEnum):
    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(enum.IntEnum):
    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(enum.IntEnum):
    PENDING = 0
    PROCESSING = 1
    SUCCESS = 2
    FAILED = 3


def _wrong(name, wanted, value):
    return TypeError("incompatible function arguments: %s is %s, not %r" % (name, wanted, value))


def _count(name, value):
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= UINT64_MAX:
        raise _wrong(name, "an unsigned number of 64 bits", value)
    return number


def _count_or_none(name, value):
    return None if value is None else _count(name, value)


def _flag(name, value):
    if not isinstance(value, (bool, int)):
        raise _wrong(name, "a bool", value)
    return bool(value)


def _text(name, value):
    if not isinstance(value, str):
        raise _wrong(name, "a str", value)
    return value


def _texts(name, value):
    if isinstance(value, (str, bytes)):
        raise _wrong(name, "a list of str", value)
    return [_text(name, one) for one in value]


def _texts_or_none(name, value):
    return None if value is None else _texts(name, value)


def _counts_or_none(name, value):
    if value is None or hasattr(value, "__index__"):
        return _count_or_none(name, value)
    if isinstance(value, (str, bytes)):
        raise _wrong(name, "a number or a list of them", value)
    return [_count(name, one) for one in value]


def _data_type(name, value):
    if not isinstance(value, ObjectDataType):
        raise _wrong(name, "an ObjectDataType", value)
    return value


def _soft_pin(name, value):
    if not isinstance(value, SoftPinAction):
        raise _wrong(name, "a SoftPinAction", value)
    return value


# name: (default, what checks a value)
_FIELDS = {
    "replica_num": (1, _count),
    "nof_replica_num": (0, _count),
    "dfs_replica_num": (0, _count),
    "with_hard_pin": (False, _flag),
    "soft_pin_action": (SoftPinAction.PRESERVE, _soft_pin),
    "soft_pin_ttl_ms": (None, _count_or_none),
    "preferred_segment": ("", _text),
    "preferred_segments": ((), _texts),
    "preferred_nof_segments": ((), _texts),
    "prefer_alloc_in_same_node": (False, _flag),
    "data_type": (ObjectDataType.UNKNOWN, _data_type),
    "group_ids": (None, _texts_or_none),
    # Snowskin's own: docs/mooncake.md, "Groups".
    "group_sizes": (None, _counts_or_none),
    "group_indexes": (None, _counts_or_none),
    "group_parents": (None, _texts_or_none),
}


class ReplicateConfig:
    """How objects are to be kept; every field is set as an attribute."""

    __slots__ = tuple(_FIELDS)

    def __init__(self):
        for name, (default, check) in _FIELDS.items():
            object.__setattr__(self, name, check(name, default))

    def __setattr__(self, name, value):
        if name in _FIELDS:
            value = _FIELDS[name][1](name, value)
        object.__setattr__(self, name, value)

    @property
    def with_soft_pin(self):
        """The older name of soft_pin_action == ENABLE."""
        return self.soft_pin_action == SoftPinAction.ENABLE

    @with_soft_pin.setter
    def with_soft_pin(self, value):
        pinned = _flag("with_soft_pin", value)
        self.soft_pin_action = SoftPinAction.ENABLE if pinned else SoftPinAction.PRESERVE

    def __str__(self):
        return "ReplicateConfig: { %s }" % ", ".join(
            "%s: %s" % (name, getattr(self, name)) for name in _FIELDS)

    __repr__ = __str__


class Descriptor:
    """Where the bytes of a copy are."""

    __slots__ = ("size", "buffer_address", "transport_endpoint")

    def __init__(self, size, buffer_address, transport_endpoint):
        self.size = size
        self.buffer_address = buffer_address
        self.transport_endpoint = transport_endpoint

    def __repr__(self):
        return "<Descriptor size=%d buffer_address=0x%x transport_endpoint='%s'>" % (
            self.size, self.buffer_address, self.transport_endpoint)


class MemoryDescriptor:
    __slots__ = ("buffer_descriptor",)

    def __init__(self, descriptor):
        self.buffer_descriptor = descriptor


class ReplicaDescriptor:
    """A copy of an object, in the memory of a node."""

    __slots__ = ("_memory",)

    def __init__(self, descriptor):
        self._memory = MemoryDescriptor(descriptor)

    @property
    def status(self):
        return ReplicaStatus.COMPLETE

    def is_memory_replica(self):
        return True

    def is_disk_replica(self):
        return False

    def is_local_disk_replica(self):
        return False

    def get_memory_descriptor(self):
        return self._memory

    def get_disk_descriptor(self):
        raise RuntimeError("the copy lies in memory, not on a disk")

    def __repr__(self):
        return "<ReplicaDescriptor memory %r>" % (self._memory.buffer_descriptor,)
