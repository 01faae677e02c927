"""mooncake_master, mooncake_client, mooncake_http_metadata_server: flags, and what they serve."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from conftest import BINARY, MIB, Memory, make_store, wait_for
from mooncake import cli, flags
from mooncake.http_metadata_server import KVBootstrapServer
from mooncake.mooncake_config import MooncakeConfig
from mooncake.sizes import parse_size
from mooncake.store import MooncakeDistributedStore


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Command:
    """A command of the package, as its console script starts it."""

    def __init__(self, name, *arguments):
        path = os.path.dirname(BINARY) + os.pathsep + os.environ["PATH"]
        self.process = subprocess.Popen(
            [sys.executable, "-c",
             "import sys; from mooncake import cli; sys.exit(cli.%s())" % name,
             *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": path})

    def line(self):
        return self.process.stdout.readline()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=20)
        return self.process.returncode, out, errors


def options_of(*arguments, said=None):
    return cli.master_options(arguments, (said if said is not None else []).append)


# ---- flags ----

def test_flags():
    options = options_of("-client_ttl=30", "--default_kv_lease_ttl", "999999", "--rpc_port=1",
                         "--enable_http_metadata_server", "-logtostderr", "--noenable_offload")
    assert options.client_ttl == 30 and options.enable_http_metadata_server
    assert cli.master_command(options) == [
        "master", "--listen", "0.0.0.0:1", "--cluster", "mooncake_cluster", "--guard",
        "999999ms", "--http-listen", "0.0.0.0:9003", "--http-drains=true", "--hard-pin", "100%",
        "--soft-pin", "1800000ms", "--soft-pin-max", "86400000ms", "--evict-soft-pinned=true",
        "--dead-after", "30s"]
    command = cli.master_command(options_of("-default_kv_soft_pin_ttl=999999",
                                            "--max_kv_soft_pin_ttl=7h",
                                            "--allow_evict_soft_pinned_objects=false"))
    assert command[-4:] == ["999999ms", "--soft-pin-max", "25200000ms", "--evict-soft-pinned=false"]
    assert options_of("--default_kv_lease_ttl=5s").default_kv_lease_ttl == 5000
    assert cli.master_command(options_of("--port=7", "--rpc_address=::1"))[2] == "[::1]:7"


def test_flags_without_effect_are_told():
    said = []
    options_of("--eviction_ratio=0.1", "--enable_offload=true", "--root_fs_dir=/x", said=said)
    assert len(said) == 2 and "--eviction_ratio" in said[0] and "disk" in said[1]


@pytest.mark.parametrize("wrong", ["--unknown=1", "--rpc_port=many", "--enable_ha=true", "word",
                                   "--enable_multi_tenants", "--allocation_strategy=mine",
                                   "--rpc_port", "--default_kv_lease_ttl=5 years",
                                   "--config_path=none.yaml"])
def test_flags_that_are_refused(wrong):
    with pytest.raises(flags.FlagError):
        options_of(wrong)


def test_files(tmp_path):
    path = tmp_path / "master.yaml"
    path.write_text("# a comment\nrpc_port: 7 # of it\nclient_live_ttl_sec: 60\n"
                    "rpc_address: \"127.0.0.1\"\nenable_ha: false\n")
    options = options_of("--config_path=%s" % path, "--rpc_port=8")
    assert (options.rpc_port, options.client_ttl, options.rpc_address) == (8, 60, "127.0.0.1")
    path = tmp_path / "master.json"
    path.write_text('{"default_kv_lease_ttl": 500}')
    assert options_of("--config_path=%s" % path).default_kv_lease_ttl == 500
    for text in ('{"unknown": 1}', '{"rpc_port": [1]}', "[]", "{"):
        path.write_text(text)
        with pytest.raises(flags.FlagError):
            options_of("--config_path=%s" % path)


def test_sizes():
    assert parse_size("4gb") == parse_size("4 GB") == 4 << 30 and parse_size("0.5k") == 512
    for wrong in ("50%", "", "x", -1, "1 byte"):
        with pytest.raises(ValueError):
            parse_size(wrong)


# ---- processes ----

def get(port, path):
    """(status, text) of a page."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check_pages(port, key, segment):
    """The master's, with one key and one segment."""
    assert get(port, "/get_all_segments") == (200, segment + "\n")
    status, text = get(port, "/query_key?key=" + key)
    found = json.loads(text)
    assert status == 200 and found["success"] and found["data"][0]["size_"] == 8192
    assert found["data"][0]["transport_endpoint_"] == segment
    assert get(port, "/query_key?key=absent")[0] == 404 and get(port, "/query_key")[0] == 400
    found = json.loads(get(port, "/batch_query_keys?keys=%s,absent" % key)[1])["data"]
    assert found[key]["ok"] and found["absent"] == {"ok": False, "values": [],
                                                    "error": "OBJECT_NOT_FOUND"}
    details = json.loads(get(port, "/get_segments_detail")[1])
    assert details["total_segments"] == 1 and details["segments"][0]["status"] == "OK"
    assert "Capacity(bytes) : %d\n" % (32 * MIB) in get(port, "/query_segment?segment="
                                                        + segment)[1]
    assert get(port, "/query_segment?segment=none")[0] == 500
    assert json.loads(get(port, "/health")[1])["service_ready"] is True
    assert get(port, "/ha_status") == (200, "serving\n") and get(port, "/role")[1] == "leader\n"
    assert json.loads(get(port, "/leader")[1]) == {"present": True}
    assert get(port, "/readyz")[0] == 200 and get(port, "/nothing")[0] == 404
    metrics = get(port, "/metrics")[1]
    assert "master_key_count 2\n" in metrics and "snowskin_core_objects 2\n" in metrics
    assert 'segment_total_capacity_bytes{segment="%s"} %d\n' % (segment, 32 * MIB) in metrics
    assert "Keys: 2 " in get(port, "/metrics/summary")[1]
    request = urllib.request.Request("http://127.0.0.1:%d/metrics" % port, b"body")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(request)


def test_master_and_client(key):
    port, client_port, http_port, pages = (free_port() for _ in range(4))
    master = Command("master", "-rpc_port=%d" % port, "--rpc_address=127.0.0.1",
                     "--metrics_host=127.0.0.1", "--metrics_port=%d" % pages)
    assert master.line() == "master 127.0.0.1:%d\n" % port
    assert master.line().startswith("http ")
    assert get(pages, "/get_all_segments") == (200, "")  # as consumers wait for the first one
    with open("/proc/%d/cmdline" % master.process.pid, "rb") as file:
        assert file.read().startswith(b"mooncake_master\0")
    client = Command("client", "--host=127.0.0.1", "-port=%d" % client_port,
                     "-master_server_address=127.0.0.1:%d" % port, "--global_segment_size=32 MB",
                     "--enable_http_server=true", "--http_port=%d" % http_port)
    segment = client.line().split()[1]
    assert segment.startswith("127.0.0.1:")
    store = MooncakeDistributedStore()
    assert store.setup_dummy(MIB, MIB, "127.0.0.1:%d" % client_port) == 0
    at = store.alloc_from_mem_pool(8192)
    assert at != 0 and store.register_buffer(at, 4096) == 0  # also a part of it
    assert store.put_from(key, at, 8192) == 0 and store.get_into(key, at, 8192) == 8192
    assert store.put(key + "2", b"x") == 0
    check_pages(pages, key, segment)
    assert store.close() == 0
    page = "http://127.0.0.1:%d" % http_port
    with urllib.request.urlopen(page + "/health") as answer:
        assert json.load(answer) == {"status": "healthy", "code": 0}
    with urllib.request.urlopen(page + "/metrics") as answer:
        assert b"mooncake_transfer_read_bytes" in answer.read()
    assert client.stop()[0] == 0 and master.stop()[0] == 0


def test_commands_refuse():
    master = Command("master", "--unknown")
    assert master.process.wait(20) == 1
    assert "unknown command line flag 'unknown'" in master.process.communicate()[1]
    client = Command("client", "--global_segment_size=much")
    assert client.process.wait(20) == 1 and "'much'" in client.process.communicate()[1]
    store = MooncakeDistributedStore()
    assert store.setup_dummy(0, 0, "127.0.0.1:%d" % free_port()) == -1


def test_http_of_a_store(master, pool):
    port = free_port()
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", master.address,
                       enable_client_http_server=True, client_http_port=port) == 0
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics/summary" % port) as answer:
        assert answer.status == 200
    assert store.close() == 0
    with pytest.raises(OSError):
        urllib.request.urlopen("http://127.0.0.1:%d/health" % port)


def test_metadata_server():
    import threading
    server = KVBootstrapServer(0, "127.0.0.1")
    thread = threading.Thread(target=server.run)
    thread.start()
    page = "http://127.0.0.1:%d/metadata" % server.port

    def ask(method, query="?key=a", body=None):
        request = urllib.request.Request(page + query, body, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    assert ask("GET")[0] == 404 and ask("GET", "")[0] == 400
    assert ask("PUT", body=b"v")[0] == 200 and ask("GET") == (200, b"v")
    assert ask("DELETE")[0] == 200 and ask("DELETE")[0] == 404
    assert ask("PUT", "?key=x/rpc_meta/y", b"1")[0] == 200
    assert ask("PUT", "?key=x/rpc_meta/y", b"2")[0] == 400
    server.close()
    thread.join()


def test_configuration(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    values = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE",
              "master_server_address": "m:1"}
    path.write_text(json.dumps(values))
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(path))
    config = MooncakeConfig.load_from_env()
    assert config.global_segment_size == 3355443200 and config.protocol == "tcp"
    monkeypatch.delenv("MOONCAKE_CONFIG_PATH")
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    with pytest.raises(ValueError, match="MOONCAKE_CONFIG_PATH"):
        MooncakeConfig.load_from_env()
    monkeypatch.setenv("MOONCAKE_MASTER", "m:2")
    assert MooncakeConfig.load_from_env().master_server_address == "m:2"
    for change, text in (({"metadata_server": ""}, "Missing required config field: metadata"),
                         ({"protocol": 5}, "Invalid protocol"),
                         ({"global_segment_size": -1}, "global_segment_size")):
        path.write_text(json.dumps({**values, **change}))
        with pytest.raises(ValueError, match=text):
            MooncakeConfig.from_file(str(path))


def test_both_packages_in_one_folder_are_refused(tmp_path):
    """pip lets the other distribution install into the same folder."""
    import mooncake
    (tmp_path / "mooncake").mkdir()
    shutil.copy(mooncake.__file__, tmp_path / "mooncake")
    (tmp_path / "mooncake/store.so").touch()
    done = subprocess.run([sys.executable, "-c", "import mooncake.store"], check=False,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True,
                          text=True)
    assert done.returncode == 1 and "ImportError" in done.stderr
    assert "pip uninstall snowskin-mooncake mooncake-transfer-engine" in done.stderr
