"""Further memory that a process gives to the cluster, beside what setup gave."""
import os
import threading
import uuid

from mooncake import hostname
from mooncake._core import Store

INVALID, INTERNAL, NOT_SUPPORTED, NOT_FOUND = -600, -1, -1012, -101
SLAB = 16 << 20


class Segments:
    __slots__ = ()

    def allocate_and_mount_segment(self, size, protocol="tcp", location=""):
        """{"ret": 0 or a code, "segment_ids": [id], "allocated_size": bytes}"""
        failed = {"ret": INVALID, "segment_ids": [], "allocated_size": 0}
        wanted = self._setup_with
        if wanted is None or size <= 0:
            return failed
        size = -(-size // SLAB) * SLAB
        host, _ = hostname.split(self._hostname)
        address = hostname.own_address(host) or "127.0.0.1"
        extra = Store()
        status, _ = extra._open(wanted.master, os.environ.get("SNOWSKIN_TOKEN"), self._hostname,
                                size, self._hostname, hostname.join(address, 0), 0, 5000, 0, None,
                                0)
        if status != 0:
            return failed
        number = uuid.uuid4().int
        segment = "%d-%d" % (number >> 64, number & (2**64 - 1))
        with self._lock:
            self._extra[segment] = extra
        return {"ret": 0, "segment_ids": [segment], "allocated_size": size}

    def unmount_and_free_segment(self, segment_ids, grace_period_seconds=0):
        """0, or a code. What lies in the segments is gone, after the grace period."""
        with self._lock:
            if any(segment not in self._extra for segment in segment_ids):
                return NOT_FOUND
            gone = [self._extra.pop(segment) for segment in segment_ids]
        if grace_period_seconds > 0:
            for extra in gone:
                timer = threading.Timer(grace_period_seconds, extra._close)
                timer.daemon = True
                timer.start()
        else:
            for extra in gone:
                extra._close()
        return 0

    def mount_segment(self, path, size, offset=0, protocol="tcp", location=""):
        """Memory of files is not taken in: {"ret": -1012, "segment_ids": []}."""
        return {"ret": NOT_SUPPORTED, "segment_ids": []}

    def unmount_segment(self, segment_ids, grace_period_seconds=0):
        """As unmount_and_free_segment."""
        return self.unmount_and_free_segment(segment_ids, grace_period_seconds)

    def unmount_local_disk_segment(self, grace_period_seconds=0):
        """-1: there is no disk tier, so nothing is mounted."""
        return INTERNAL

    def _unmount_all(self):
        for extra in self._extra.values():
            extra._close()
        self._extra.clear()
