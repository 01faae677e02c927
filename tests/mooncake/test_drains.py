"""Drains that are asked for over HTTP."""
import http.client
import json

import pytest

from conftest import MIB, Master, Memory, child, make_store, wait_for
from mooncake.store import ReplicateConfig
from test_failures import NODE

KEYS, SIZE = 24, 256 << 10


class Pages:
    def __init__(self, master):
        self.port = int(master.process.stdout.readline().split()[1])

    def ask(self, method, path, told=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, json.dumps(told) if body is None else body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content[:1] == b"{" else content

    def state(self, segment):
        return self.ask("GET", "/api/v1/segments/status?segment=" + segment)[1].get("status_name")


@pytest.fixture
def master():
    running = Master("--http-listen", "127.0.0.1:0", "--http-drains=true")
    yield running
    assert running.stop() == 0


def start_node(master):
    node = child(NODE.replace("16 << 20", "32 << 20"), master.address)
    return node, node.stdout.readline().strip()


def put_on(store, segment, prefix, count=KEYS):
    config = ReplicateConfig()
    config.preferred_segment = segment
    values = [Memory(bytes([index + 1]) * SIZE) for index in range(count)]
    keys = ["%s%d" % (prefix, index) for index in range(count)]
    assert store.batch_put_from(keys, [value.at for value in values], [SIZE] * count,
                                config) == [0] * count
    return keys, values


def test_a_node_is_drained_and_leaves(master):
    pages, store = Pages(master), make_store(master, 32 * MIB)
    node, segment = start_node(master)
    assert pages.state(segment) == pages.state(store.get_hostname()) == "OK"
    keys, values = put_on(store, segment, "key")
    copy = store.get_replica_desc(keys[0])[0].get_memory_descriptor().buffer_descriptor
    assert copy.transport_endpoint == segment
    status, begun = pages.ask("POST", "/api/v1/drain_jobs", {
        "segments": [segment], "target_segments": [store.get_hostname()], "max_concurrency": 2})
    assert status == 200 and begun["success"] and begun["status"] == "CREATED"
    assert pages.state(segment) in ("DRAINING", "DRAINED")
    put_on(store, segment, "later", 4)  # they lie elsewhere
    query = "/api/v1/drain_jobs/query?job_id=" + begun["job_id"]
    wait_for(lambda: pages.ask("GET", query)[1]["status_name"] == "SUCCEEDED")
    told = pages.ask("GET", query)[1]
    assert told["success"] and told["type_name"] == "DRAIN" and told["segments"] == [segment]
    assert told["active_units"] == told["failed_units"] == 0 and told["succeeded_units"] >= KEYS
    assert told["migrated_bytes"] >= KEYS * SIZE
    assert 0 < told["created_at_ms_epoch"] <= told["last_updated_at_ms_epoch"]
    assert pages.state(segment) == "DRAINED"
    node.kill()
    node.communicate()
    memory = Memory(SIZE)
    for key, value in zip(keys, values):
        assert store.get_into(key, memory.at, SIZE) == SIZE and memory.bytes == value.bytes
    assert store.batch_is_exist(["later%d" % index for index in range(4)]) == [1] * 4
    assert store.close() == 0


def test_a_drain_that_is_cancelled(master):
    pages, store = Pages(master), make_store(master, 16 * MIB)
    pinned = ReplicateConfig()
    pinned.with_hard_pin = True  # what has nowhere to go holds the drain up
    pinned.preferred_segment = store.get_hostname()
    value = Memory(MIB)
    assert store.put_from("pinned", value.at, MIB, pinned) == 0
    status, begun = pages.ask("POST", "/api/v1/drain_jobs", {"segments": [store.get_hostname()]})
    assert status == 200
    again = pages.ask("POST", "/api/v1/drain_jobs", {"segments": [store.get_hostname()]})[1]
    assert again["success"] and again["job_id"] != begun["job_id"]  # it is the same drain
    query = "/api/v1/drain_jobs/query?job_id=" + begun["job_id"]
    assert pages.ask("GET", query)[1]["status_name"] == "RUNNING"
    assert pages.state(store.get_hostname()) == "DRAINING"
    details = pages.ask("GET", "/get_segments_detail")[1]["segments"]
    assert [row["status"] for row in details] == ["DRAINING"]
    assert pages.ask("POST", query.replace("query", "cancel", 1))[1]["status"] == "CANCELED"
    assert pages.ask("GET", query)[1]["status_name"] == "CANCELED"
    assert pages.state(store.get_hostname()) == "OK"
    assert store.get_into("pinned", value.at, MIB) == MIB and store.put("more", b"x") == 0
    assert store.close() == 0


def test_what_is_wrong(master):
    pages = Pages(master)
    drain = "/api/v1/drain_jobs"
    for body in ("", "[]", "{", b"\xff", "{}", '{"segments": []}', '{"segments": "x"}'):
        status, told = pages.ask("POST", drain, body=body)
        assert status == 400 and not told["success"] and told["error_code"] == -600, body
    for segments in (["none"], [1], ["x" * 5000]):
        status, told = pages.ask("POST", drain, {"segments": segments})
        assert (status, told["error_code"]) == (404, -101)
    assert pages.ask("POST", drain, body="x" * 70000)[0] == 413
    assert pages.ask("GET", drain)[0] == 405 and pages.ask("POST", "/health")[0] == 405
    for job in ("", "?job_id=", "?job_id=0-1", "?job_id=x", "?job_id=0-1x", "?job_id=0-64"):
        for method, path in (("GET", "/query"), ("POST", "/cancel")):
            status, told = pages.ask(method, drain + path + job)
            assert status in (400, 404) and not told["success"]
    assert pages.ask("GET", "/api/v1/segments/status?segment=none")[0] == 404
    assert pages.ask("GET", "/api/v1/segments/status")[0] == 400


def test_pages_that_only_tell():
    master = Master("--http-listen", "127.0.0.1:0")
    pages, store = Pages(master), make_store(master, 16 * MIB)
    status, told = pages.ask("POST", "/api/v1/drain_jobs", {"segments": [store.get_hostname()]})
    assert status == 403 and not told["success"]
    assert pages.state(store.get_hostname()) == "OK"
    assert store.close() == 0
    assert master.stop() == 0
