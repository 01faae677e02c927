"""What a client tells over HTTP: its health and counters; and mooncake_client, a process that gives
memory and tells others of its host where the master is."""
import http.client
import http.server
import json
import os
import signal
import socket
import threading

from mooncake import hostname

HEALTH = ("healthy", "not_initialized", "master_unreachable")
INTRODUCTION = "/snowskin/client"
ASK_SECONDS = 5


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, port, pages):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.pages = pages  # path: () -> (status, type, text)
        super().__init__((address, port), _Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True,
                                       name="mooncake http")
        self.thread.start()

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10  # of a peer that says nothing

    def do_GET(self):
        page = self.server.pages.get(self.path.partition("?")[0])
        status, kind, text = (404, "text/plain", "no such page\n") if page is None else page()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def _health(store):
    code = store.health_check()
    return 200 if code == 0 else 503, "application/json", json.dumps(
        {"status": HEALTH[code], "code": code})


def _metrics(store):
    labels = '{client_mode="real",cluster_id="%s"}' % os.environ.get("MC_STORE_CLUSTER_ID", "")
    read, reads, written, writes, hidden = store._counters()
    rows = (("mooncake_transfer_read_bytes", read, "Bytes of objects that were read"),
            ("mooncake_transfer_write_bytes", written, "Bytes of objects that were written"),
            ("mooncake_transfer_read_operation_count", reads, "Objects that were read"),
            ("mooncake_transfer_write_operation_count", writes, "Objects that were written"),
            ("mooncake_is_exist_unknown_total", hidden, "is_exist answered 0: nobody to ask"))
    return 200, "text/plain; version=0.0.4", "".join(
        "# HELP %s %s\n# TYPE %s counter\n%s%s %d\n" % (name, text, name, name, labels, value)
        for name, value, text in rows)


def _summary(store):
    read, reads, written, writes, _ = store._counters()
    return 200, "text/plain; version=0.0.4", "Read: %d objects, %d bytes | Written: %d objects, " \
        "%d bytes\n" % (reads, read, writes, written)


def pages_of(store):
    return {"/health": lambda: _health(store), "/metrics": lambda: _metrics(store),
            "/metrics/summary": lambda: _summary(store)}


class ClientHttp(_Server):
    """The HTTP pages of a store."""

    def __init__(self, store, port, address="0.0.0.0"):
        super().__init__(address, port, pages_of(store))


def ask_client(address):
    """What the mooncake_client at host:port tells: {"master", "host"}. OSError, ValueError."""
    host, port = hostname.split(address)
    connection = http.client.HTTPConnection(host, port or 50052, timeout=ASK_SECONDS)
    try:
        connection.request("GET", INTRODUCTION)
        answer = connection.getresponse()
        body = answer.read()
    except http.client.HTTPException as error:
        raise OSError("%s: %r" % (address, error)) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError("%s: no mooncake_client (HTTP %d)" % (address, answer.status))
    return json.loads(body)


def serve(options):
    """mooncake_client: until SIGTERM or SIGINT. The status of the process."""
    from mooncake.store import MooncakeDistributedStore, log
    store = MooncakeDistributedStore()
    own = options.host if options.host not in ("0.0.0.0", "::") else "localhost"
    told = {"master": options.master_server_address, "host": own}
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    if store.setup(own, options.metadata_server, options.global_segment_size,
                   options.local_buffer_size, options.protocol, options.device_names,
                   options.master_server_address, None, options.enable_offload, "",
                   options.tenant_id) != 0:
        return 1
    servers = []
    try:
        introduction = {INTRODUCTION: lambda: (200, "application/json", json.dumps(told))}
        servers.append(_Server(options.host, options.port, introduction))
        if options.enable_http_server:
            servers.append(ClientHttp(store, options.http_port))
        print("mooncake_client %s serves at port %d" % (store.get_hostname(), options.port),
              flush=True)
        ended.wait()
    except OSError as error:
        log.error("mooncake_client: port %d or %d: %s", options.port, options.http_port, error)
        return 1
    finally:
        for server in servers:
            server.close()
        store.close()
    return 0
