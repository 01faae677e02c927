"""TransferEngine: memory of one process read and written by another, over TCP."""
import ctypes
import enum
import json
import logging
import os
import random
import threading

from mooncake import hostname
from mooncake._core import Engine
from mooncake.registrations import Registrations

log = logging.getLogger("mooncake")

SUPPORT_EFA = SUPPORT_HIP = SUPPORT_MNNVL = SUPPORT_MUSA = False
SUPPORT_INTRA_NVLINK = SUPPORT_CUDA = False
_WRITE, _READ = 1, 2  # as ext/engine.h
_MIN_PORT, _MAX_PORT, _TRIES = 15000, 17000, 64
_TIMEOUT_S, _TIMEOUT_S_MIN = 30, 5
_CLASS_MIN, _CLASS_MAX = 8 << 10, 256 << 20


class TransferOpcode(enum.IntEnum):
    Read = 0
    Write = 1


Read, Write = TransferOpcode.Read, TransferOpcode.Write


class TransferNotify:
    """A word to a peer, sent behind a transfer."""

    def __init__(self, name="", msg=""):
        self.name = name
        self.msg = msg


class InnerTransferEngine:
    """What setup() of a store takes as `engine`."""

    __slots__ = ("_engine",)

    def __init__(self, engine):
        self._engine = engine

    def get_rpc_port(self):
        return self._engine.get_rpc_port()

    @property
    def registrations(self):
        """The table that a store shares."""
        return self._engine._registered


def _kind(opcode):
    return _READ if opcode == TransferOpcode.Read else _WRITE


class TransferEngine:
    """One end; a peer is named host:port, of its get_rpc_port()."""

    TransferOpcode = TransferOpcode

    def __init__(self):
        timeout = max(hostname.env_number("MC_TRANSFER_TIMEOUT", _TIMEOUT_S), _TIMEOUT_S_MIN)
        self._engine = Engine(timeout * 1000, os.environ.get("SNOWSKIN_TE_UNREGISTERED") == "1",
                              os.environ.get("SNOWSKIN_TE_NEAR") != "0")
        self._registered = Registrations(self._engine)
        self._lock = threading.Lock()
        self._managed = {}  # address: (memory, its size class)
        self._free = {}     # size class: addresses
        self._met = set()   # peers that were there once

    # ---- beginning ----

    def initialize(self, local_hostname, metadata_server, protocol, device_name):
        """0, or -1: no port is free, or this was done before. Where engines meet at a metadata
        server they know each other by local_hostname, so it listens at that port."""
        try:
            host, own_port = hostname.split(local_hostname)
        except ValueError as error:
            log.error("initialize: %s", error)
            return -1
        address = hostname.own_address(host) or "0.0.0.0"
        low = next((hostname.env_number(name, _MIN_PORT)
                    for name in ("MC_MIN_RPC_PORT", "MC_MIN_PRC_PORT") if name in os.environ),
                   _MIN_PORT)
        high = next((hostname.env_number(name, _MAX_PORT)
                     for name in ("MC_MAX_RPC_PORT", "MC_MAX_PRC_PORT") if name in os.environ),
                    _MAX_PORT)
        ports = range(low, max(high, low) + 1)
        if self._engine.port() != 0:
            log.error("initialize: it was done before")
            return -1
        tried = random.sample(ports, min(len(ports), _TRIES))
        if own_port and metadata_server != "P2PHANDSHAKE":
            tried = [own_port]
        for port in tried:
            if self._engine.listen(address, port) == 0:
                return 0
        log.error("initialize: none of %d ports from %d on is free at %s", len(tried), min(tried),
                  address)
        return -1

    def initialize_ext(self, local_hostname, metadata_server, protocol, device_name,
                       metadata_type):
        """As initialize."""
        return self.initialize(local_hostname, metadata_server, protocol, device_name)

    def get_rpc_port(self):
        return self._engine.port()

    def get_engine(self):
        return InnerTransferEngine(self)

    def get_engine_ptr(self):
        return id(self._engine)

    def get_local_topology(self, device_name=None):
        """JSON: there is one device, the host's memory over TCP."""
        return json.dumps({"cpu:0": [["tcp"], []]})

    # ---- memory ----

    def register_memory(self, buffer_addr, capacity, location="*"):
        """0; -7: some of it is registered, here or at a store on this engine; -1."""
        code = self._registered.add(buffer_addr, capacity)
        return code if code in (0, -7) else -1

    def unregister_memory(self, addr):
        """Waits for transfers inside it: 0, or -1. Stores on this engine forget it too."""
        return 0 if self._registered.remove(addr) == 0 else -1

    def batch_register_memory(self, buffer_addresses, capacities, location="*"):
        """0, or the first error; then none of them is registered by it."""
        addresses, sizes = list(buffer_addresses), list(capacities)
        if len(addresses) != len(sizes):
            return -1
        for index, (address, size) in enumerate(zip(addresses, sizes)):
            code = self.register_memory(address, size)
            if code != 0:
                for before in addresses[:index]:
                    self.unregister_memory(before)
                return code
        return 0

    def batch_unregister_memory(self, addrs):
        """0, or the first error."""
        codes = [self.unregister_memory(address) for address in addrs]
        return next((code for code in codes if code != 0), 0)

    # ---- transfers that are waited for: 0, or -1 ----

    def batch_transfer_sync_write(self, target_hostname, buffers, peer_buffer_addresses, lengths,
                                  transport_hint=""):
        return self._engine.transfer(_WRITE, target_hostname, buffers, peer_buffer_addresses,
                                     lengths)

    def batch_transfer_sync_read(self, target_hostname, buffers, peer_buffer_addresses, lengths,
                                 transport_hint=""):
        return self._engine.transfer(_READ, target_hostname, buffers, peer_buffer_addresses,
                                     lengths)

    def transfer_sync_write(self, target_hostname, buffer, peer_buffer_address, length,
                            transport_hint=""):
        return self._engine.transfer(_WRITE, target_hostname, [buffer], [peer_buffer_address],
                                     [length])

    def transfer_sync_read(self, target_hostname, buffer, peer_buffer_address, length,
                           transport_hint=""):
        return self._engine.transfer(_READ, target_hostname, [buffer], [peer_buffer_address],
                                     [length])

    def batch_transfer_sync(self, target_hostname, buffers, peer_buffer_addresses, lengths, opcode,
                            notify=None, transport_hint=""):
        code = self._engine.transfer(_kind(opcode), target_hostname, buffers,
                                     peer_buffer_addresses, lengths)
        if code == 0 and notify is not None:
            code = self._engine.notify(target_hostname, notify.name, notify.msg)
        return code

    def transfer_sync(self, target_hostname, buffer, peer_buffer_address, length, opcode,
                      notify=None, transport_hint=""):
        return self.batch_transfer_sync(target_hostname, [buffer], [peer_buffer_address],
                                        [length], opcode, notify)

    # ---- transfers that run by themselves: a number, 0: not started ----

    def _submit(self, kind, target, buffers, addresses, lengths):
        """An id; 0: the peer was never met, and is not there."""
        if target not in self._met:
            if self._engine.probe(target)[0] != 0:
                return 0
            self._met.add(target)
        return self._engine.submit(kind, target, buffers, addresses, lengths)

    def batch_transfer_async(self, target_hostname, buffers, peer_buffer_addresses, lengths,
                             opcode, transport_hint=""):
        return self._submit(_kind(opcode), target_hostname, buffers, peer_buffer_addresses,
                            lengths)

    def batch_transfer_async_write(self, target_hostname, buffers, peer_buffer_addresses, lengths,
                                   transport_hint=""):
        return self._submit(_WRITE, target_hostname, buffers, peer_buffer_addresses, lengths)

    def batch_transfer_async_read(self, target_hostname, buffers, peer_buffer_addresses, lengths,
                                  transport_hint=""):
        return self._submit(_READ, target_hostname, buffers, peer_buffer_addresses, lengths)

    def transfer_submit_write(self, target_hostname, buffer, peer_buffer_address, length,
                              transport_hint=""):
        return self._submit(_WRITE, target_hostname, [buffer], [peer_buffer_address], [length])

    def transfer_check_status(self, batch_id):
        """1: done, 0: running, -1: failed, -2: it took too long."""
        return self._engine.check(batch_id, False)

    def get_batch_transfer_status(self, batch_ids):
        """Waits for all: 0, or -1."""
        results = [self._engine.check(batch_id, True) for batch_id in batch_ids]
        return 0 if all(result == 1 for result in results) else -1

    # ---- words ----

    def get_notifies(self):
        """Those that came since the last call."""
        return [TransferNotify(name.decode(errors="replace"), message.decode(errors="replace"))
                for name, message in self._engine.notices()]

    def send_probe(self, peer_server_name):
        """0: it answers; -102: nobody does."""
        return self._engine.probe(peer_server_name)[0]

    def get_first_buffer_address(self, segment):
        """Where the first region of a peer begins; 0: it has none, or is not there."""
        return self._engine.probe(segment)[1]

    # ---- memory of the engine's own ----

    def allocate_managed_buffer(self, length):
        """An address, or 0: more than 256 MiB, or no memory."""
        if not 0 < length <= _CLASS_MAX:
            return 0
        size = max(_CLASS_MIN, 1 << (length - 1).bit_length())
        with self._lock:
            if self._free.get(size):
                return self._free[size].pop()
            try:
                memory = (ctypes.c_char * size)()
            except MemoryError:
                return 0
            address = ctypes.addressof(memory)
            if self.register_memory(address, size) != 0:
                return 0
            self._managed[address] = (memory, size)
            return address

    def free_managed_buffer(self, buffer_addr, length):
        """0; -1: it was not allocated here."""
        with self._lock:
            if buffer_addr not in self._managed:
                return -1
            self._free.setdefault(self._managed[buffer_addr][1], []).append(buffer_addr)
        return 0

    def write_bytes_to_buffer(self, dest_address, src_ptr, length):
        ctypes.memmove(dest_address, src_ptr, length)
        return 0

    def read_bytes_from_buffer(self, source_address, length):
        return ctypes.string_at(source_address, length)
