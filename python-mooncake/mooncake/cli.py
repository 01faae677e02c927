"""The commands mooncake_master and mooncake_client: other programs' flags, Snowskin's servers."""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import types

from mooncake import flags, hostname
from mooncake.flags import BOOL, INT, MILLISECONDS, RATIO, TEXT
from mooncake.sizes import parse_size

# What has its meaning here.
_USED = {
    "config_path": (TEXT, ""), "rpc_port": (INT, 0), "port": (INT, 50051),
    "rpc_address": (TEXT, "0.0.0.0"), "rpc_interface": (TEXT, ""),
    "metrics_port": (INT, 9003), "metrics_host": (TEXT, "0.0.0.0"),
    "default_kv_lease_ttl": (MILLISECONDS, 10000), "client_ttl": (INT, 10),
    "default_kv_soft_pin_ttl": (MILLISECONDS, 1800000),
    "max_kv_soft_pin_ttl": (MILLISECONDS, 86400000),
    "allow_evict_soft_pinned_objects": (BOOL, True),
    "enable_http_metadata_server": (BOOL, False), "http_metadata_server_port": (INT, 8080),
    "http_metadata_server_host": (TEXT, "0.0.0.0"), "cluster_id": (TEXT, "mooncake_cluster"),
}
# What would change what is kept, and is not there: with it the master does not start.
_REFUSED = {
    "enable_ha": (BOOL, False, "there is one master; a restarted one learns all from the nodes"),
    "enable_multi_tenants": (BOOL, False, "there are no tenants: their keys would be mixed"),
    "enable_cxl": (BOOL, False, "there is no CXL memory"),
}
# The tiers that are not there yet; one warning.
_DISK = {
    "root_fs_dir": (TEXT, ""), "enable_offload": (BOOL, False), "offload_on_evict": (BOOL, False),
    "offload_force_evict": (BOOL, False), "offloading_queue_limit": (INT, 50000),
    "offload_cap_ratio": (RATIO, 0.5), "promotion_on_hit": (BOOL, False),
    "promotion_admission_threshold": (INT, 2), "promotion_queue_limit": (INT, 50000),
    "promotion_max_per_heartbeat": (INT, 1), "global_file_segment_size": (INT, 2**63 - 1),
    "enable_disk_eviction": (BOOL, True), "quota_bytes": (INT, 0),
}
# What Snowskin does by itself, or not at all.
_WITHOUT_EFFECT = {
    "rpc_thread_num": (INT, 0), "max_threads": (INT, 16), "rpc_conn_timeout_seconds": (INT, 0),
    "rpc_enable_tcp_no_delay": (BOOL, True), "enable_metric_reporting": (BOOL, True),
    "eviction_ratio": (RATIO, 0.05),
    "eviction_high_watermark_ratio": (RATIO, 0.90),
    "enable_metadata_cleanup_on_timeout": (BOOL, False),
    "put_start_discard_timeout_sec": (INT, 30), "put_start_release_timeout_sec": (INT, 600),
    "allocation_strategy": (("random", "free_ratio_first", "local_first", "ssd_free_ratio_first",
                             "cxl"), "random"),
    "memory_allocator": (("offset", "cachelib"), "offset"), "ha_backend_type": (TEXT, "etcd"),
    "ha_backend_connstring": (TEXT, ""), "etcd_endpoints": (TEXT, ""), "pod_name": (TEXT, ""),
    "pod_namespace": (TEXT, ""), "tenant_quota_connector_type": (TEXT, "file"),
    "tenant_quota_connector_uri": (TEXT, ""), "enable_snapshot": (BOOL, False),
    "enable_snapshot_restore": (BOOL, False), "snapshot_interval_seconds": (INT, 600),
    "snapshot_child_timeout_seconds": (INT, 300), "snapshot_retention_count": (INT, 2),
    "snapshot_backup_dir": (TEXT, ""), "snapshot_object_store_type": (TEXT, ""),
    "snapshot_catalog_store_type": (TEXT, ""), "snapshot_catalog_store_connstring": (TEXT, ""),
    "snapshot_payload_store_type": (TEXT, ""), "snapshot_payload_backend_type": (TEXT, ""),
    "snapshot_catalog_backend_type": (TEXT, ""),
    "snapshot_catalog_backend_connstring": (TEXT, ""), "max_total_finished_tasks": (INT, 10000),
    "max_total_pending_tasks": (INT, 10000), "max_total_processing_tasks": (INT, 10000),
    "pending_task_timeout_sec": (INT, 300), "processing_task_timeout_sec": (INT, 300),
    "max_retry_attempts": (INT, 10), "nof_eviction_ratio": (RATIO, 0.05),
    "nof_eviction_high_watermark_ratio": (RATIO, 0.90), "nof_heartbeat_interval_sec": (INT, 10),
    "nof_heartbeat_probe_timeout_ms": (INT, 1000), "nof_heartbeat_failures_threshold": (INT, 3),
    "dynamic_replication_mode": (("off", "observe", "enforce"), "off"),
    "dynamic_replication_heat_window_seconds": (INT, 10),
    "dynamic_replication_admission_qps_threshold": (RATIO, 0.8),
    "dynamic_replication_max_memory_replicas": (INT, 2), "enable_kv_events": (BOOL, False),
    "kv_events_bind_endpoint": (TEXT, ""), "kv_events_backend_id": (TEXT, ""),
    "kv_events_emit_legacy_compat": (BOOL, True), "kv_events_emit_object_key": (BOOL, True),
    "kv_events_queue_capacity": (INT, 65536), "kv_events_model_name": (TEXT, ""),
    "kv_events_tenant_id": (TEXT, ""), "kv_events_additional_salt": (TEXT, ""),
    "kv_events_lora_name": (TEXT, ""), "kv_events_block_size": (INT, 0),
    "kv_events_dp_rank": (INT, 0), "enable_oplog": (BOOL, False),
    "oplog_poll_interval_ms": (INT, 1000), "oplog_batch_max_entries": (INT, 1024),
    "batch_oplog_retry_timeout_sec": (INT, 180), "cxl_path": (TEXT, "/dev/dax0.0"),
    "cxl_size": (INT, 8 << 30),
}
MASTER = {**_USED, **{name: row[:2] for name, row in _REFUSED.items()}, **_DISK,
          **_WITHOUT_EFFECT}
_FILE_NAMES = {"client_live_ttl_sec": "client_ttl"}
CLIENT = {
    "host": (TEXT, "0.0.0.0"), "port": (INT, 50052),
    "metadata_server": (TEXT, "http://127.0.0.1:8080/metadata"),
    "master_server_address": (TEXT, "127.0.0.1:50051"), "protocol": (TEXT, "tcp"),
    "device_names": (TEXT, ""), "global_segment_size": (TEXT, "4 GB"),
    "local_buffer_size": (TEXT, "0"), "threads": (INT, 1), "tenant_id": (TEXT, "default"),
    "enable_offload": (BOOL, False), "start_offload_rpc_server": (BOOL, True),
    "enable_http_server": (BOOL, False), "http_port": (INT, 9300),
    "use_mmap_arena_allocator": (BOOL, False), "mmap_arena_pool_size": (TEXT, "8 GB"),
}
_SOFT_PIN_MS_MAX = 720 * 3600000
_DEAD_AFTER_S_MIN = 6  # twice the silence after which a node is passed over


def _say(program, text):
    print("%s: %s" % (program, text), file=sys.stderr, flush=True)


def _wants_help(program, arguments, table, text):
    names = {argument.lstrip("-") for argument in arguments if argument.startswith("-")}
    if names & {"help", "helpfull", "helpshort", "h"}:
        print(flags.help_text(program, table, text))
        return True
    if "version" in names:
        from mooncake import _core
        print("%s (snowskin %s)" % (program, _core.version))
        return True
    return False


def _address_of_interface(name):
    """The IPv4 address of a network interface; FlagError."""
    import fcntl
    import socket
    import struct
    request = struct.pack("256s", name.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            answer = fcntl.ioctl(asked.fileno(), 0x8915, request)  # SIOCGIFADDR
    except OSError as error:
        raise flags.FlagError("--rpc_interface %s: %s" % (name, error)) from error
    return socket.inet_ntoa(answer[20:24])


def master_options(arguments, say):
    """The values of all flags of mooncake_master; FlagError."""
    given = flags.parse(MASTER, arguments)
    values = {name: default for name, (_, default) in MASTER.items()}
    in_file = {}
    if given.get("config_path"):
        in_file = flags.read_file(MASTER, given["config_path"], _FILE_NAMES)
    values |= in_file
    values |= {name: value for name, value in given.items()
               if name not in in_file or value != MASTER.get(name, (None, None))[1]}
    for name, (_, default, why) in _REFUSED.items():
        if values[name] != default:
            raise flags.FlagError("--%s: %s" % (name, why))
    changed = [name for name in _WITHOUT_EFFECT if values[name] != MASTER[name][1]]
    if changed:
        say("without effect here: %s" % ", ".join("--" + name for name in changed))
    if any(values[name] != MASTER[name][1] for name in _DISK):
        say("there is no disk tier yet: what is evicted is gone")
    return types.SimpleNamespace(**values, given=set(given) | set(in_file))


def _pin_ms(value):
    return min(max(value, 1), _SOFT_PIN_MS_MAX)


def master_command(options):
    """Snowskin's own command line of it."""
    address = options.rpc_address
    if options.rpc_interface:
        address = _address_of_interface(options.rpc_interface)
    command = ["master", "--listen", hostname.join(address, options.rpc_port or options.port),
               "--cluster", options.cluster_id, "--guard",
               "%dms" % max(options.default_kv_lease_ttl, 1), "--http-listen",
               hostname.join(options.metrics_host, options.metrics_port), "--http-drains=true",
               "--hard-pin", "100%",
               "--soft-pin", "%dms" % _pin_ms(options.default_kv_soft_pin_ttl),
               "--soft-pin-max", "%dms" % _pin_ms(options.max_kv_soft_pin_ttl),
               "--evict-soft-pinned=%s" % str(options.allow_evict_soft_pinned_objects).lower()]
    if "client_ttl" in options.given:
        command += ["--dead-after", "%ds" % max(options.client_ttl, _DEAD_AFTER_S_MIN)]
    return command


def _binary():
    own = pathlib.Path(__file__).parent / "bin" / "mooncake_master"
    found = str(own) if own.exists() else shutil.which("snowskin")
    if found is None:
        raise flags.FlagError("the program snowskin is neither in the package nor in PATH")
    return found


def _end_with_parent():
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _start_metadata_server(options):
    """Beside the master, until it ends."""
    subprocess.Popen([sys.executable, "-m", "mooncake.http_metadata_server", "--port",
                      str(options.http_metadata_server_port), "--host",
                      options.http_metadata_server_host], preexec_fn=_end_with_parent)


def master():
    """mooncake_master"""
    arguments = sys.argv[1:]
    say = lambda text: _say("mooncake_master", text)
    if _wants_help("mooncake_master", arguments, MASTER, "the master of a cluster"):
        return 0
    try:
        options = master_options(arguments, say)
        command = master_command(options)
        binary = _binary()
    except flags.FlagError as error:
        say("ERROR: %s" % error)
        return 1
    if options.enable_http_metadata_server:
        _start_metadata_server(options)
    sys.stdout.flush()
    os.execv(binary, ["mooncake_master", *command])


def client():
    """mooncake_client"""
    from mooncake import client_service
    arguments = sys.argv[1:]
    if _wants_help("mooncake_client", arguments, CLIENT, "a process that gives memory"):
        return 0
    try:
        values = {name: default for name, (_, default) in CLIENT.items()}
        values |= flags.parse(CLIENT, arguments)
        for name in ("global_segment_size", "local_buffer_size"):
            values[name] = parse_size(values[name])
    except (flags.FlagError, ValueError) as error:
        _say("mooncake_client", "ERROR: %s" % error)
        return 1
    return client_service.serve(types.SimpleNamespace(**values))
