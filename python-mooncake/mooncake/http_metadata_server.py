"""A server of keys and texts over HTTP, for engines that meet by it: GET, PUT, DELETE
/metadata?key=..."""
import argparse
import http.server
import socket
import sys
import threading
import urllib.parse

VALUE_BYTES_MAX = 1 << 20
KEYS_MAX = 1 << 20


class KVBootstrapServer:
    """Serves until close()."""

    def __init__(self, port, host="0.0.0.0"):
        self.values = {}
        self.lock = threading.Lock()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("Server", (http.server.ThreadingHTTPServer,),
                    {"address_family": family, "daemon_threads": True, "store": self})
        self.server = kind((host, port), _Handler)
        self.port = self.server.server_address[1]

    def run(self):
        """Serves in this thread."""
        self.server.serve_forever(0.1)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def _answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _key(self):
        parts = urllib.parse.urlsplit(self.path)
        if parts.path == "/health" and self.command == "GET":
            self._answer(200, b"OK")
            return None
        if parts.path != "/metadata":
            self._answer(404, b"no such page")
            return None
        keys = urllib.parse.parse_qs(parts.query).get("key")
        if not keys:
            self._answer(400, b"key is missing")
            return None
        return keys[0]

    def do_GET(self):
        key = self._key()
        if key is None:
            return
        value = self.server.store.values.get(key)
        self._answer(*((404, b"metadata not found") if value is None else (200, value)))

    def do_PUT(self):
        key = self._key()
        if key is None:
            return
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > VALUE_BYTES_MAX:
            self.close_connection = True
            self._answer(413 if size.isdigit() else 411)
            return
        value = self.rfile.read(int(size))
        store = self.server.store
        with store.lock:
            before = store.values.get(key)
            if "rpc_meta" in key and before is not None and before != value:
                self._answer(400, b"Duplicate rpc_meta key not allowed")
                return
            if before is None and len(store.values) >= KEYS_MAX:
                self._answer(507, b"too many keys")
                return
            store.values[key] = value
        self._answer(200, b"metadata updated")

    def do_DELETE(self):
        key = self._key()
        if key is None:
            return
        with self.server.store.lock:
            value = self.server.store.values.pop(key, None)
        self._answer(*((404, b"metadata not found") if value is None
                       else (200, b"metadata deleted")))

    def log_message(self, format, *args):
        pass


def main():
    """mooncake_http_metadata_server"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args()
    try:
        server = KVBootstrapServer(options.port, options.host)
    except OSError as error:
        print("mooncake_http_metadata_server: port %d: %s" % (options.port, error),
              file=sys.stderr)
        return 1
    try:
        server.run()
    except KeyboardInterrupt:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
