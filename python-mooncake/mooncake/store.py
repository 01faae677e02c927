"""MooncakeDistributedStore: the calls of mooncake/_core, and what needs no speed."""
import logging
import mmap
import operator
import os
import socket
import threading
import weakref

from mooncake import hostname
from mooncake._core import BufferHandle, Store
from mooncake.buffer_pool import BufferPool, RegisteredBufferPool
from mooncake.config import (Descriptor, MemoryDescriptor, ObjectDataType, ReplicaDescriptor,
                             ReplicaStatus, ReplicateConfig, SoftPinAction, TaskStatus, TaskType)
from mooncake.parallelism import Parallelism, ParallelAxis, ReadTarget, TensorParallelism
from mooncake.registrations import Registrations
from mooncake.segments import Segments
from mooncake.sessions import Sessions
from mooncake.sizes import parse_size
from mooncake.tasks import QueryTaskResponse, Tasks
from mooncake.tensor_files import TensorFiles
from mooncake.tensors import (Tensors, _deserialize_tensor, _serialize_tensor,
                              _tensor_metadata_size)

__all__ = [
    "BufferHandle", "BufferPool", "Descriptor", "MemoryDescriptor", "MooncakeDistributedStore",
    "MooncakeHostMemAllocator", "ObjectDataType", "ParallelAxis", "QueryTaskResponse",
    "ReadTarget", "RegisteredBufferPool", "TaskStatus", "TaskType",
    "ReplicaDescriptor", "ReplicaStatus", "ReplicateConfig", "SoftPinAction",
    "TensorParallelism", "_deserialize_tensor", "_serialize_tensor", "_tensor_metadata_size",
    "bind_to_numa_node",
]
globals().update({member.name: member for member in (*ObjectDataType, *ReplicaStatus, *TaskType,
                                                           *TaskStatus)})

log = logging.getLogger("mooncake")

INVALID, INTERNAL = -600, -1
MIB = 1 << 20
LOCAL_BYTES_MAX = 1 << 40
DEADLINE_MS = 5000
MASTER_PORT = 50051
ANY_DEVICE = ("", "auto-discovery")

# Names of the dictionary that setup takes; those of older configurations are taken too.
_DICT_DEFAULTS = {
    "global_segment_size": "16mb", "local_buffer_size": "16mb", "protocol": "tcp",
    "rdma_devices": "", "master_server_addr": "127.0.0.1:50051", "enable_ssd_offload": "false",
    "ssd_offload_path": "", "tenant_id": "default", "enable_client_http_server": "false",
    "client_http_port": "9300",
}
_OTHER_NAMES = {"device_name": "rdma_devices", "master_server_address": "master_server_addr"}


def _is_true(value):
    return str(value).strip().lower() in ("1", "true", "yes", "on", "t", "y")


def _master_address(text):
    """host:port of the master; ValueError."""
    if "://" in text:
        raise ValueError("the master at %r: only host:port is known" % text)
    host, port = hostname.split(text)
    return hostname.join(host, port or MASTER_PORT)


def _check_tenant(tenant):
    if not tenant or tenant.startswith("_") or any(ord(letter) < 32 for letter in tenant):
        raise ValueError("tenant_id %r: empty, begins with _ or has control characters" % tenant)


def _deadline_ms():
    """Of a call; MC_TRANSFER_TIMEOUT is in seconds, at least 5."""
    seconds = hostname.env_number("MC_TRANSFER_TIMEOUT", 0)
    return max(seconds * 1000, DEADLINE_MS)


_KEY_RULES = ("off", "sglang", "vllm", "lmcache", "custom")  # enum snow_key_rule


def _key_rules():
    """Groups by the keys of engines that name none: rule, pattern and members, by environment."""
    rule = os.environ.get("SNOWSKIN_KEY_RULES", "off")
    if rule not in _KEY_RULES:
        raise ValueError("SNOWSKIN_KEY_RULES=%s: say one of %s" % (rule, ", ".join(_KEY_RULES)))
    return (_KEY_RULES.index(rule), os.environ.get("SNOWSKIN_KEY_PATTERN") or None,
            int(os.environ.get("SNOWSKIN_KEY_MEMBERS", "0")))


def _whole(name, value):
    """An unsigned number; TypeError."""
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise TypeError("%s is %r: not a number of 0 to 2^64 - 1" % (name, value))
    return number


_warned = set()


def _warn_once(text):
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)


class _Setup:
    """What setup was asked for, checked.  ValueError says what is wrong."""

    def __init__(self, local_hostname, master, segment_size, local_size):
        self.text = local_hostname
        self.host, self.port = hostname.split(local_hostname)
        self.master = _master_address(master)
        self.segment_size = parse_size(segment_size)
        self.local_size = parse_size(local_size)
        self.refused = INTERNAL if self.port is None else INVALID
        if 0 < self.segment_size < MIB:
            raise ValueError("global_segment_size %d: 0, or 1 MiB or more" % self.segment_size)
        if self.local_size > LOCAL_BYTES_MAX:
            raise ValueError("local_buffer_size %d: at most 1 TiB" % self.local_size)


class _Memory:
    """A store as its table of registrations sees it: the calls of mooncake/_core."""

    def __init__(self, store):
        self._store = weakref.ref(store)

    def register(self, at, size):
        store = self._store()
        return Store.register_buffer(store, at, size) if store is not None else 0

    def unregister(self, at):
        store = self._store()
        return Store.unregister_buffer(store, at) if store is not None else 0


class MooncakeDistributedStore(Parallelism, TensorFiles, Tensors, Sessions, Segments, Tasks, Store):
    """A store of the cluster. Any number of threads may use one at once."""

    __slots__ = ("_lock", "_hostname", "_held", "_registered", "_local_size", "_put_sessions",
                 "_get_sessions", "_extra", "_pool", "_service", "_setup_with", "_tasks",
                 "__weakref__")

    def __init__(self):
        super().__init__()
        self._lock = threading.RLock()
        self._hostname = ""
        self._held = None          # a socket that keeps the port of a name without memory
        self._registered = Registrations()
        self._registered.join(self, _Memory(self))
        self._local_size = 0
        self._put_sessions = {}
        self._get_sessions = {}
        self._extra = {}           # further segments of this process, by their ids
        self._pool = None          # memory of alloc_from_mem_pool
        self._service = None       # HTTP
        self._setup_with = None
        self._tasks = {}           # of this store, by their ids

    # ---- setting up and closing ----

    def setup(self, local_hostname, metadata_server=None, global_segment_size=None,
              local_buffer_size=None, protocol=None, rdma_devices=None, master_server_addr=None,
              engine=None, enable_ssd_offload=False, ssd_offload_path="", tenant_id="default",
              enable_client_http_server=False, client_http_port=9300):
        """setup(local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol,
        rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False,
        ssd_offload_path="", tenant_id="default", enable_client_http_server=False,
        client_http_port=9300), or setup(dict) of the same names.

        Connects to the master, and gives global_segment_size bytes of memory to the cluster.
        0: done; a negative code: not, and the log says why."""
        if isinstance(local_hostname, dict):
            return self._setup_from(local_hostname)
        given = (metadata_server, global_segment_size, local_buffer_size, protocol, rdma_devices,
                 master_server_addr)
        names = ("metadata_server", "global_segment_size", "local_buffer_size", "protocol",
                 "rdma_devices", "master_server_addr")
        missing = [name for name, value in zip(names, given) if value is None]
        if missing:
            raise TypeError("setup(): incompatible function arguments: missing %s"
                            % ", ".join(missing))
        for name, value in (("local_hostname", local_hostname), *zip(names, given)):
            wanted = int if name in ("global_segment_size", "local_buffer_size") else str
            if not isinstance(value, wanted) and not (wanted is int and hasattr(value,
                                                                                "__index__")):
                raise TypeError("setup(): incompatible function arguments: %s is %r, not of type "
                                "%s" % (name, value, wanted.__name__))
        if engine is not None and not hasattr(engine, "registrations"):
            raise TypeError("setup(): incompatible function arguments: engine is %r, not what "
                            "TransferEngine.get_engine() gives" % (engine,))
        try:
            _check_tenant(tenant_id)
            wanted = _Setup(local_hostname, master_server_addr, int(global_segment_size),
                            int(local_buffer_size))
        except ValueError as error:
            log.error("setup: %s", error)
            return INVALID
        if enable_ssd_offload:
            _warn_once("enable_ssd_offload: there is no disk tier yet; what is evicted is gone")
        return self._set_up(wanted, int(client_http_port) if enable_client_http_server else None,
                            engine)

    def _setup_from(self, given):
        config = dict(_DICT_DEFAULTS)
        for name, value in given.items():
            name = str(name)
            if name in _OTHER_NAMES and (_OTHER_NAMES[name] in given or str(value) == ""):
                continue
            config[_OTHER_NAMES.get(name, name)] = str(value)
        try:
            for name in ("local_hostname", "metadata_server"):
                if not config.get(name):
                    raise ValueError("%s is missing" % name)
            sizes = [parse_size(config[name])
                     for name in ("global_segment_size", "local_buffer_size")]
            if any(0 < size < 1024 for size in sizes):
                raise ValueError("sizes are 0, or 1024 or more")
            port = int(config["client_http_port"])
        except ValueError as error:
            log.error("setup: %s", error)
            return INVALID
        return self.setup(
            config["local_hostname"], config["metadata_server"], *sizes, config["protocol"],
            config["rdma_devices"], config["master_server_addr"], None,
            _is_true(config["enable_ssd_offload"]), config["ssd_offload_path"],
            config["tenant_id"], _is_true(config["enable_client_http_server"]), port)

    def _set_up(self, wanted, http_port, engine=None):
        with self._lock:
            status, reason = self._open_as(wanted)
            if status != 0:
                log.error("setup: %s", reason)
                return wanted.refused
            self._local_size = wanted.local_size
            self._setup_with = wanted
            before = self._registered
            if engine is not None and engine.registrations is not before:
                self._registered = engine.registrations
            else:
                before = None
            self._registered.join(self, _Memory(self), before)
            if http_port is not None:
                return self._serve(http_port)
        return 0

    def _open_as(self, wanted):
        """Tries names until one is free. (0 or not, why not)"""
        address = hostname.own_address(wanted.host)
        if address is None and wanted.segment_size > 0:
            _warn_once("setup: %s is no address of this host: its memory is reached from this "
                       "host alone" % wanted.host)
        address = address or "127.0.0.1"
        if wanted.port is not None:
            return self._open_at(wanted, address, wanted.port, may_be_taken=True)
        status, reason = INVALID, "no port is free"
        for port in hostname.free_ports():
            try:
                hostname.hold(address, port).close()
            except OSError:
                continue
            status, reason = self._open_at(wanted, address, port, may_be_taken=False)
            if status == 0 or "in use" not in reason:
                break
        return status, reason

    def _open_at(self, wanted, address, port, may_be_taken):
        name = hostname.join(wanted.host, port)
        held = None
        try:
            rules = _key_rules()
        except ValueError as error:
            return INVALID, str(error)
        try:
            held = hostname.hold(address, port)
        except OSError as error:
            if not may_be_taken:
                return INVALID, "%s: in use (%s)" % (name, error)
            listen = hostname.join(address, 0)  # an engine of this process has it
        else:
            listen = hostname.join(address, port)
            if wanted.segment_size > 0:
                held.close()
                held = None
        status, reason = self._open(wanted.master, os.environ.get("SNOWSKIN_TOKEN"), name,
                                    wanted.segment_size, name, listen, wanted.local_size,
                                    _deadline_ms(), *rules)
        if status != 0:
            if held is not None:
                held.close()
            return status, reason
        if self._held is not None:
            self._held.close()
        self._held = held
        self._hostname = name
        return 0, ""

    def setup_dummy(self, mem_pool_size, local_buffer_size, server_address):
        """Connect by way of the mooncake_client at server_address: 0, or -1."""
        from mooncake.client_service import ask_client
        try:
            told = ask_client(server_address)
            wanted = _Setup(told["host"], told["master"], 0, int(local_buffer_size))
        except (OSError, ValueError, KeyError) as error:
            log.error("setup_dummy: %s", error)
            return INTERNAL
        return 0 if self._set_up(wanted, None) == 0 else INTERNAL

    def close(self):
        """End; what this store gave to the cluster is gone. 0"""
        with self._lock:
            self._end_sessions()
            self._unmount_all()
            self._registered.leave(self)
            self._registered = Registrations()
            self._registered.join(self, _Memory(self))
            if self._service is not None:
                self._service.close()
                self._service = None
            self._close()
            if self._held is not None:
                self._held.close()
                self._held = None
            self._setup_with = None
            self._hostname = ""
        return 0

    def _warn_hidden(self, count):
        log.warning("is_exist: the master can not be asked, so nothing is there (%d times so far)",
                    count)

    def _serve(self, port):
        from mooncake.client_service import ClientHttp
        try:
            service = ClientHttp(self, port)
        except OSError as error:
            log.error("setup: HTTP at port %d: %s", port, error)
            return INVALID
        if self._service is not None:
            self._service.close()
        self._service = service
        return 0

    def get_hostname(self):
        """The name of this store's segment, as preferred_segment takes it."""
        return self._hostname

    # ---- memory ----

    def register_buffer(self, buffer_ptr, size):
        """Memory that will be used again and again: 0. With an engine, at that too."""
        at, size = _whole("buffer_ptr", buffer_ptr), _whole("size", size)
        return 0 if self._registered.add(at, size, self) == 0 else INVALID

    def unregister_buffer(self, buffer_ptr):
        """Waits for calls that use it: 0. With an engine, whichever it was registered at."""
        return 0 if self._registered.remove(_whole("buffer_ptr", buffer_ptr)) == 0 else INVALID

    def alloc_from_mem_pool(self, size):
        """An address of memory that lives as long as this store, or 0."""
        with self._lock:
            if self._pool is None:
                self._pool = MooncakeHostMemAllocator()
            try:
                return self._pool.alloc(size)
            except RuntimeError as error:
                log.error("alloc_from_mem_pool: %s", error)
                return 0

    # ---- ranges ----

    def get_into_ranges(self, buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, all_sizes):
        """Read parts of objects into parts of buffers: for each buffer, key and range the bytes
        that were read, or a code."""
        wanted = _Ranges(all_sizes)
        shapes = (list(buffer_ptrs), list(all_keys), list(all_dst_offsets),
                  list(all_src_offsets), list(all_sizes))
        if len({len(shape) for shape in shapes}) != 1:
            return wanted.codes
        for index, (pointer, keys, to, sources, sizes) in enumerate(zip(*shapes)):
            room = self._registered.size(int(pointer))
            if not len(keys) == len(to) == len(sources) == len(sizes):
                continue
            for key_index, one in enumerate(zip(keys, to, sources, sizes)):
                wanted.add(index, key_index, int(pointer), room, *one)
        return wanted.read(self)

    # ---- where copies are ----

    def batch_replica_clear(self, keys, segment_name=""):
        """Removes all copies of each key, whoever wrote it: the keys that are gone. One that was
        read a moment ago stays. Copies of one segment alone are not removed: [] for any name."""
        if segment_name:
            _warn_once("batch_replica_clear: copies of one segment are not removed by themselves")
            return []
        keys = list(keys)
        return [key for key, code in zip(keys, self.batch_remove(keys)) if code == 0]

    def get_offload_rpc_read_count(self):
        """Reads that another host's disk served: 0, as there is no disk tier."""
        return 0

    def batch_get_replica_desc(self, keys):
        """The copies of each key that there is: a dictionary of lists."""
        keys = list(keys)
        found = self._holders(keys)
        held = {key: row for key, row in zip(keys, found) if not isinstance(row, int)}
        nodes = {row[0]: row for row in self._nodes() or ()} if held else {}
        return {key if isinstance(key, str) else bytes(key).decode(errors="replace"):
                [ReplicaDescriptor(Descriptor(size, 0, nodes[number][2] or nodes[number][3]))
                 for number in numbers if number in nodes]
                for key, (size, numbers) in held.items()}

    def get_replica_desc(self, key):
        """The copies of a key: a list."""
        for copies in self.batch_get_replica_desc([key]).values():
            return copies
        return []


class _Ranges:
    """Ranges of one call: flat for the library, nested for the caller."""

    def __init__(self, all_sizes):
        self.codes = [[[INVALID] * len(ranges) for ranges in keys] for keys in all_sizes]
        self.places = []
        self.keys, self.pointers, self.sizes, self.offsets = [], [], [], []

    def add(self, index, key_index, pointer, room, key, to, sources, sizes):
        if not len(to) == len(sources) == len(sizes):
            return
        for number, (at, source, size) in enumerate(zip(to, sources, sizes)):
            if room is not None and at + size > room:
                continue
            self.places.append((index, key_index, number))
            self.keys.append(key)
            self.pointers.append(pointer + at)
            self.sizes.append(size)
            self.offsets.append(source)

    def read(self, store):
        results = store._read_ranges(self.keys, self.pointers, self.sizes, self.offsets)
        for (index, key_index, number), result in zip(self.places, results):
            self.codes[index][key_index][number] = result
        return self.codes


class MooncakeHostMemAllocator:
    """Memory of the host, by address."""

    def __init__(self):
        self._areas = {}

    def alloc(self, size):
        """The address of size bytes, on pages of their own; RuntimeError: there are none."""
        import ctypes
        if size <= 0:
            raise RuntimeError("alloc of %r bytes" % (size,))
        try:
            area = mmap.mmap(-1, size)
        except (OSError, ValueError, OverflowError) as error:
            raise RuntimeError("alloc of %d bytes: %s" % (size, error)) from error
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        self._areas[address] = area
        return address

    def free(self, ptr):
        """0; -1: it was not allocated here."""
        area = self._areas.pop(ptr, None)
        return 0 if area is not None else INTERNAL


def bind_to_numa_node(node):
    """Let this process run on the CPUs of a NUMA node; a warning when it can not."""
    try:
        with open("/sys/devices/system/node/node%d/cpulist" % node, encoding="ascii") as file:
            cpus = set()
            for part in file.read().strip().split(","):
                first, _, last = part.partition("-")
                cpus.update(range(int(first), int(last or first) + 1))
        os.sched_setaffinity(0, cpus)
    except (OSError, ValueError) as error:
        log.warning("bind_to_numa_node(%r): %s", node, error)
