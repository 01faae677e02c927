"""The store for programs that speak HTTP alone."""
import http.client
import json
import re
import signal
import subprocess
import sys

import pytest

from conftest import LEASE_S, MIB, make_store, wait_for


class Service:
    def __init__(self, config, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mooncake.mooncake_store_service", "--config", config,
             "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = re.search(r"port (\d+)", self.process.stdout.readline())
        self.port = int(found.group(1)) if found else None

    def ask(self, method, path, told=None, body=None):
        """(status, what the answer says)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = json.dumps(told) if told is not None else body
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(content) if is_json else content

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


def config_at(tmp_path, master):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({
        "local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "protocol": "tcp",
        "global_segment_size": "1gb", "local_buffer_size": "16mb",
        "master_server_address": master.address}))
    return str(path)


@pytest.fixture
def service(own_master, tmp_path):
    running = Service(config_at(tmp_path, own_master), "-D", "global_segment_size=64mb")
    yield running
    code, errors = running.stop()
    assert code == 0 and "Traceback" not in errors


def test_values(service, own_master):
    done = (200, {"status": "success"})
    assert service.ask("PUT", "/api/put", {"key": "a b/ä", "value": "wörd"}) == done
    store = make_store(own_master, 0)
    assert store.get("a b/ä") == "wörd".encode()
    quoted = "a%20b%2F%C3%A4"
    assert service.ask("GET", "/api/get/" + quoted) == (200, "wörd".encode())
    assert service.ask("GET", "/api/exist/" + quoted) == (200, {"exists": True})
    assert service.ask("GET", "/api/exist/none") == (200, {"exists": False})
    assert service.ask("GET", "/api/get/none")[0] == 404
    assert service.ask("DELETE", "/api/remove/none")[0] == 404
    status, told = service.ask("DELETE", "/api/remove/" + quoted)  # it was read a moment ago
    assert (status, told["error"]) == (500, "remove: -706")
    wait_for(lambda: service.ask("DELETE", "/api/remove/" + quoted) == done, 20 * LEASE_S)
    assert service.ask("GET", "/api/get/" + quoted)[0] == 404
    large = bytes(range(32, 127)) * 50000
    assert service.ask("PUT", "/api/put", {"key": "large", "value": large.decode()}) == done
    assert service.ask("GET", "/api/get/large") == (200, large)
    assert store.put_from("empty", 0, 0) == 0
    assert service.ask("GET", "/api/get/empty") == (200, b"")
    removed = []

    def all_are_gone():
        told = service.ask("DELETE", "/api/remove_all")[1]["status"]
        removed.append(int(re.fullmatch(r"success removed (\d+) keys", told).group(1)))
        return sum(removed) == 2

    wait_for(all_are_gone)
    assert store.batch_is_exist(["large", "empty"]) == [0, 0]
    assert store.close() == 0


def test_memory(service, own_master):
    store = make_store(own_master, 0)
    status, told = service.ask("POST", "/api/mount", {"size": 20 * MIB})
    assert status == 200 and told["allocated_size"] == 32 * MIB and len(told["segment_ids"]) == 1
    assert service.ask("POST", "/api/unmount", {"segment_ids": told["segment_ids"]}) == \
        (200, {"status": "success"})
    assert service.ask("POST", "/api/unmount", {"segment_ids": ["1-2"]})[0] == 500
    assert service.ask("POST", "/api/mount_shm", {"name": "x", "size": MIB})[0] == 500
    assert service.ask("POST", "/api/unmount_local_disk", {})[0] == 500
    assert store.close() == 0


def test_what_is_wrong(service):
    for told in ({}, {"key": "a"}, {"key": 1, "value": "b"}, {"key": "", "value": "b"},
                 {"key": "a", "value": True}):
        assert service.ask("PUT", "/api/put", told)[0] == 400, told
    for body in ("", "[]", "{", b"\xff"):
        assert service.ask("PUT", "/api/put", body=body)[0] == 400
    assert service.ask("POST", "/api/mount", {"size": "large"})[0] == 400
    assert service.ask("POST", "/api/unmount", {"segment_ids": [1]})[0] == 400
    assert service.ask("POST", "/api/reconfigure", {"mode": "other"})[0] == 400
    assert service.ask("POST", "/api/reconfigure", {"mode": "decode"})[0] == 500
    for method, path in (("GET", "/"), ("GET", "/api/get/"), ("GET", "/api/put"),
                         ("POST", "/api/get/a"), ("GET", "/api/other/a"), ("GET", "/a/b/c/d/e")):
        assert service.ask(method, path)[0] in (400, 404)
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    connection.putrequest("PUT", "/api/put")
    connection.putheader("Content-Length", str(101 << 20))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_it_waits_for_a_master(own_master, tmp_path):
    config = config_at(tmp_path, own_master)
    own_master.kill()
    gone = Service(config, "--max-wait-time", "0")
    assert gone.port is None and gone.process.wait(20) == 1
    assert "the set-up fails" in gone.process.communicate()[1]
    late = subprocess.Popen(
        [sys.executable, "-m", "mooncake.mooncake_store_service", "--config", config, "--port",
         "0", "-D", "global_segment_size=16mb"], stdout=subprocess.PIPE, text=True)
    own_master.start()
    assert "serves" in late.stdout.readline()
    late.terminate()
    late.communicate()
    assert late.returncode == 0
    assert Service(config, "-D", "nothing").process.wait(20) == 1
