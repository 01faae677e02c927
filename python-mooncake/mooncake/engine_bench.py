"""transfer_engine_bench: memory for others to read and write (--mode=target), or what it takes to
read or write that of such a process (--mode=initiator)."""
import ctypes
import mmap
import signal
import socket
import sys
import threading
import time

from mooncake import flags, hostname
from mooncake.flags import BOOL, INT, TEXT

_UNITS = {"GB": 1e9, "GiB": 2**30, "Gb": 1e9 / 8, "MB": 1e6, "MiB": 2**20, "Mb": 1e6 / 8,
          "KB": 1e3, "KiB": 2**10, "Kb": 1e3 / 8}
FLAGS = {
    "mode": (("initiator", "target"), "initiator"), "operation": (("read", "write"), "read"),
    "local_server_name": (TEXT, ""), "metadata_server": (TEXT, "P2PHANDSHAKE"),
    "segment_id": (TEXT, ""), "buffer_size": (INT, 1 << 30), "batch_size": (INT, 128),
    "block_size": (INT, 65536), "duration": (INT, 10), "threads": (INT, 12),
    "report_unit": (tuple(_UNITS), "GB"), "report_precision": (INT, 2),
    # Without effect here.
    "protocol": (TEXT, "tcp"), "device_name": (TEXT, ""), "nic_priority_matrix": (TEXT, ""),
    "auto_discovery": (BOOL, False), "use_vram": (BOOL, False), "init_mem": (BOOL, True),
    "gpu_id": (INT, -1),
}


def _say(text):
    print("transfer_engine_bench: %s" % text, file=sys.stderr, flush=True)


def _options(arguments):
    """{name: value} of all flags; FlagError."""
    values = {name: default for name, (_, default) in FLAGS.items()} | flags.parse(FLAGS, arguments)
    values["local_server_name"] = values["local_server_name"] or socket.gethostname()
    for name in ("buffer_size", "batch_size", "block_size", "threads"):
        if values[name] < 1:
            raise flags.FlagError("--%s: %d" % (name, values[name]))
    if values["mode"] == "target":
        return values
    if not values["segment_id"]:
        raise flags.FlagError("--segment_id: the target's HOST:PORT, as it prints it")
    if values["block_size"] * values["batch_size"] * values["threads"] > values["buffer_size"]:
        raise flags.FlagError("--buffer_size: %d threads have no room for a batch of %d blocks each"
                              % (values["threads"], values["batch_size"]))
    return values


class _Work:
    """What all threads of an initiator share."""

    def __init__(self, engine, options, own, peer):
        self.engine, self.options, self.own, self.peer = engine, options, own, peer
        self.until = time.monotonic() + options["duration"]
        self.batches, self.failed = [0] * options["threads"], False

    def run(self, index):
        size, count = self.options["block_size"], self.options["batch_size"]
        first = index * size * count
        offsets = [first + number * size for number in range(count)]
        move = self.engine.batch_transfer_sync_write if self.options["operation"] == "write" \
            else self.engine.batch_transfer_sync_read
        arguments = (self.options["segment_id"], [self.own + offset for offset in offsets],
                     [self.peer + offset for offset in offsets], [size] * count)
        while time.monotonic() < self.until and not self.failed:
            if move(*arguments) != 0:
                self.failed = True
                return
            self.batches[index] += 1


def _measure(engine, options, own):
    """Of an initiator: the status of the process."""
    peer = engine.get_first_buffer_address(options["segment_id"])
    if peer == 0:
        _say("ERROR: nothing is registered at %s, or nobody is there" % options["segment_id"])
        return 1
    work = _Work(engine, options, own, peer)
    began = time.monotonic()
    threads = [threading.Thread(target=work.run, args=(index,))
               for index in range(options["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, batches = time.monotonic() - began, sum(work.batches)
    if work.failed:
        _say("ERROR: a transfer failed")
        return 1
    moved = batches * options["batch_size"] * options["block_size"]
    print("Test completed: duration %.2f, batch count %d, throughput %.*f %s/s" % (
        seconds, batches, options["report_precision"],
        moved / seconds / _UNITS[options["report_unit"]], options["report_unit"]), flush=True)
    return 0


def main():
    """transfer_engine_bench"""
    from mooncake.engine import TransferEngine
    arguments = sys.argv[1:]
    if {word.lstrip("-") for word in arguments} & {"help", "helpfull", "helpshort", "h"}:
        print(flags.help_text("transfer_engine_bench", FLAGS, "measures the transfer engine"))
        return 0
    try:
        options = _options(arguments)
    except flags.FlagError as error:
        _say("ERROR: %s" % error)
        return 1
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    engine = TransferEngine()
    area = mmap.mmap(-1, options["buffer_size"])
    own = ctypes.addressof(ctypes.c_char.from_buffer(area))
    if engine.initialize(options["local_server_name"], options["metadata_server"],
                         options["protocol"], options["device_name"]) != 0 or \
            engine.register_memory(own, options["buffer_size"]) != 0:
        _say("ERROR: the engine does not start")
        return 1
    if options["mode"] == "initiator":
        return _measure(engine, options, own)
    host, _ = hostname.split(options["local_server_name"])
    print("Transfer Engine RPC using P2P handshake, listening on %s"
          % hostname.join(host, engine.get_rpc_port()), flush=True)
    ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
