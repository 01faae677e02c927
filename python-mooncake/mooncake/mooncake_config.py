"""MooncakeConfig: what a store is set up with, from a JSON file or the environment."""
import json
import logging
import os
from dataclasses import dataclass

from mooncake.sizes import parse_size

DEFAULT_SEGMENT = 3355443200
DEFAULT_BUFFER = 1073741824
_PROTOCOLS = ("tcp", "rdma", "ascend", "ubshmem", "cxl", "efa", "nvlink", "nvmeof", "hip",
              "rpc_only")

log = logging.getLogger("mooncake")


def _size(name, value):
    try:
        return parse_size(value)
    except ValueError as error:
        raise ValueError("%s: %s" % (name, error)) from None


def _protocol(value):
    if not isinstance(value, str) or not value:
        raise ValueError("Invalid protocol: %r" % (value,))
    if value not in _PROTOCOLS:
        log.warning("Unrecognised protocol: %s", value)
    return value


def _truth(value):
    return str(value).strip().lower() in ("1", "true", "yes", "on")


@dataclass
class MooncakeConfig:
    """Arguments of MooncakeDistributedStore.setup, by other names."""

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = 9300

    @staticmethod
    def _of(values):
        for name in ("local_hostname", "metadata_server", "master_server_address"):
            if not values.get(name):
                raise ValueError("Missing required config field: %s" % name)
        return MooncakeConfig(
            local_hostname=values["local_hostname"],
            metadata_server=values["metadata_server"],
            global_segment_size=_size("global_segment_size",
                                      values.get("global_segment_size", DEFAULT_SEGMENT)),
            local_buffer_size=_size("local_buffer_size",
                                    values.get("local_buffer_size", DEFAULT_BUFFER)),
            protocol=_protocol(values.get("protocol", "tcp")),
            device_name=values.get("device_name", ""),
            master_server_address=values["master_server_address"],
            enable_ssd_offload=_truth(values.get("enable_ssd_offload", False)),
            ssd_offload_path=values.get("ssd_offload_path", ""),
            tenant_id=values.get("tenant_id", "default"),
            enable_client_http_server=_truth(values.get("enable_client_http_server", False)),
            client_http_port=int(values.get("client_http_port", 9300)))

    @staticmethod
    def from_file(file_path):
        """Of a JSON file."""
        with open(file_path, encoding="utf-8") as file:
            return MooncakeConfig._of(json.load(file))

    @staticmethod
    def load_from_env():
        """Of the file that MOONCAKE_CONFIG_PATH names, else of the variables MOONCAKE_..."""
        path = os.getenv("MOONCAKE_CONFIG_PATH")
        if path:
            return MooncakeConfig.from_file(path)
        if not os.getenv("MOONCAKE_MASTER"):
            raise ValueError("Neither the environment variable 'MOONCAKE_CONFIG_PATH' nor "
                             "'MOONCAKE_MASTER' is set.")
        names = {"master_server_address": "MASTER", "local_hostname": "LOCAL_HOSTNAME",
                 "metadata_server": "TE_META_DATA_SERVER",
                 "global_segment_size": "GLOBAL_SEGMENT_SIZE",
                 "local_buffer_size": "LOCAL_BUFFER_SIZE", "protocol": "PROTOCOL",
                 "device_name": "DEVICE", "enable_ssd_offload": "OFFLOAD_ENABLED",
                 "ssd_offload_path": "OFFLOAD_FILE_STORAGE_PATH", "tenant_id": "TENANT_ID",
                 "enable_client_http_server": "ENABLE_CLIENT_HTTP_SERVER",
                 "client_http_port": "CLIENT_HTTP_PORT"}
        values = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}
        for field, name in names.items():
            if os.getenv("MOONCAKE_" + name) is not None:
                values[field] = os.environ["MOONCAKE_" + name]
        return MooncakeConfig._of(values)
