"""A store for programs that speak HTTP alone: mc_store_rest_server, or
python -m mooncake.mooncake_store_service --config FILE"""
import argparse
import http.server
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse

BODY_BYTES_MAX = 100 << 20
NOT_FOUND = -704
OCTETS, JSON = "application/octet-stream", "application/json"

log = logging.getLogger("mooncake")


class _Refused(Exception):
    """An answer that is not 200: (status, text)."""


def _of(told, name, kind, default=None):
    """A value of a request's body."""
    value = told.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Refused(400, "%s is missing or of another type" % name)
    return value


def _done(code, what):
    if code < 0:
        raise _Refused(500, "%s: %d" % (what, code))
    return code


class _Calls:
    """What a request does; each answers what becomes JSON, or bytes."""

    def __init__(self, store):
        self.store = store

    def put(self, told):
        key, value = _of(told, "key", str), _of(told, "value", str)
        if not key or not value:
            raise _Refused(400, "key or value is empty")
        _done(self.store.put(key, value.encode()), "put")
        return {"status": "success"}

    def get(self, key):
        size = self.store.get_size(key)
        if size == NOT_FOUND:
            raise _Refused(404, "no such key")
        buffer = self.store.get_buffer(key) if _done(size, "get") > 0 else b""
        if buffer is None:
            raise _Refused(404, "the value is gone")
        return bytes(buffer)

    def exist(self, key):
        return {"exists": _done(self.store.is_exist(key), "exist") == 1}

    def remove(self, key):
        code = self.store.remove(key)
        if code == NOT_FOUND:
            raise _Refused(404, "no such key")
        _done(code, "remove")
        return {"status": "success"}

    def remove_all(self, _):
        return {"status": "success removed %d keys" % _done(self.store.remove_all(), "remove_all")}

    def mount(self, told):
        found = self.store.allocate_and_mount_segment(
            _of(told, "size", int), _of(told, "protocol", str, "tcp"),
            _of(told, "location", str, ""))
        _done(found.pop("ret"), "mount")
        return {"status": "success", **found}

    def unmount(self, told):
        segments = _of(told, "segment_ids", list)
        if not all(isinstance(segment, str) for segment in segments):
            raise _Refused(400, "segment_ids are texts")
        _done(self.store.unmount_and_free_segment(
            segments, _of(told, "grace_period_seconds", (int, float), 0)), "unmount")
        return {"status": "success"}

    def mount_shm(self, told):
        found = self.store.mount_segment(
            "/dev/shm/" + _of(told, "name", str), _of(told, "size", int),
            _of(told, "offset", int, 0))
        _done(found["ret"], "mount_shm")
        return {"status": "success", "segment_ids": found["segment_ids"]}

    def unmount_local_disk(self, told):
        _done(self.store.unmount_local_disk_segment(
            _of(told, "grace_period_seconds", (int, float), 0)), "unmount_local_disk")
        return {"status": "success"}

    def reconfigure(self, told):
        mode = _of(told, "mode", str)
        if mode not in ("decode", "prefill"):
            raise _Refused(400, "mode is decode or prefill")
        raise _Refused(500, "reconfigure: this service keeps what it gives to the pool")


# (method, path): call. A path that ends with / is followed by a key.
_PAGES = {
    ("PUT", "/api/put"): _Calls.put, ("GET", "/api/get/"): _Calls.get,
    ("GET", "/api/exist/"): _Calls.exist, ("DELETE", "/api/remove/"): _Calls.remove,
    ("DELETE", "/api/remove_all"): _Calls.remove_all, ("POST", "/api/mount"): _Calls.mount,
    ("POST", "/api/unmount"): _Calls.unmount, ("POST", "/api/mount_shm"): _Calls.mount_shm,
    ("POST", "/api/unmount_shm"): _Calls.unmount,
    ("POST", "/api/unmount_local_disk"): _Calls.unmount_local_disk,
    ("POST", "/api/reconfigure"): _Calls.reconfigure,
}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def _body(self):
        size = self.headers.get("Content-Length", "0")
        if not size.isdigit() or int(size) > BODY_BYTES_MAX:
            self.close_connection = True
            raise _Refused(413, "a body of %s bytes" % size)
        return self.rfile.read(int(size))

    def _answer_of(self):
        body = self._body()
        path = urllib.parse.urlsplit(self.path).path
        call = _PAGES.get((self.command, path))
        if call is not None and self.command in ("PUT", "POST"):
            try:
                told = json.loads(body)
            except ValueError:
                told = None
            if not isinstance(told, dict):
                raise _Refused(400, "the body is no JSON object")
            return call(self.server.calls, told)
        if call is not None and not path.endswith("/"):
            return call(self.server.calls, None)
        folder, _, key = path.rpartition("/") if path.count("/") == 3 else ("", "", "")
        call = _PAGES.get((self.command, folder + "/"))
        if call is None or not key:
            raise _Refused(404, "no such page")
        return call(self.server.calls, urllib.parse.unquote(key))

    def _serve(self):
        try:
            status, answer = 200, self._answer_of()
        except _Refused as refused:
            status, answer = refused.args[0], {"error": refused.args[1]}
        kind = OCTETS if isinstance(answer, bytes) else JSON
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def log_message(self, format, *args):
        pass


class StoreService:
    """Serves one store until close()."""

    def __init__(self, store, port, host="0.0.0.0"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("Server", (http.server.ThreadingHTTPServer,),
                    {"address_family": family, "daemon_threads": True,
                     "request_queue_size": 64, "calls": _Calls(store)})
        self.server = kind((host, port), _Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True,
                                       name="mooncake rest")
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def _config_of(options):
    """What setup takes; OSError, ValueError."""
    config = {}
    path = options.config or os.environ.get("MOONCAKE_CONFIG_PATH")
    if path:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        if not isinstance(config, dict):
            raise ValueError("%s: no map of names" % path)
    for word in options.define:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError("-D %s: say NAME=VALUE" % word)
        config[name] = value
    return config


def _set_up(store, config, seconds, ended):
    """Tries once a second until it is done, or for that long."""
    deadline = time.monotonic() + seconds
    while True:
        code = store.setup(config)
        if code == 0 or time.monotonic() >= deadline or ended.wait(1):
            return code


def main():
    """mc_store_rest_server"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="JSON of what setup takes; else MOONCAKE_CONFIG_PATH")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--max-wait-time", type=float, default=60, help="seconds for the set-up")
    options = parser.parse_args()
    from mooncake.store import MooncakeDistributedStore
    store, ended = MooncakeDistributedStore(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        code = _set_up(store, _config_of(options), options.max_wait_time, ended)
        if code != 0:
            raise ValueError("the set-up fails: %d" % code)
        service = StoreService(store, options.port)
    except (OSError, ValueError) as error:
        print("mc_store_rest_server: %s" % error, file=sys.stderr)
        store.close()
        return 1
    print("mc_store_rest_server %s serves at port %d" % (store.get_hostname(), service.port),
          flush=True)
    ended.wait()
    service.close()
    store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
