"""LMCache's second level on Snowskin, without the package `mooncake`.

    lmcache server ... --l2-adapter '{"type": "plugin", "module_path": "snowskin.lmcache",
        "class_name": "SnowskinL2Adapter",
        "adapter_params": {"master": "127.0.0.1:7600", "segment_size": 4294967296}}'

A chunk is one object for each rank and object group, and the ranks' objects are a group of that
size.  So a look-up counts a chunk only when every rank's share is there, as LMCache needs it, and
it is evicted whole.  What a look-up found is leased until it is loaded; a load that finds it gone
is a miss.  Memory of LMCache's first level is registered and read and written in place.

Other keys of adapter_params: `timeout` (seconds of a call), `token`, `tag` (parts name spaces),
`threads` (tasks at work at once, 4).
"""
import concurrent.futures
import ctypes
import hashlib
import logging
import threading

import snowskin
from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from lmcache.v1.platform import create_event_notifier

log = logging.getLogger(__name__)


class _Tasks:
    """Those of one kind: numbers, results that wait to be taken, and a descriptor that tells."""

    def __init__(self):
        self.notifier = create_event_notifier()
        self.results = {}


class SnowskinL2Adapter(L2AdapterInterface):
    """Of one cache server; any number of threads may use it."""

    def __init__(self, params, l1_memory_desc=None):
        super().__init__()  # no capacity: the pool is everybody's, and evicts by itself
        if "master" not in params:
            raise ValueError("snowskin: adapter_params has no 'master' (host:port)")
        self.tag = params.get("tag", "")
        self.store = snowskin.Store(
            params["master"], token=params.get("token"), timeout=params.get("timeout"),
            segment_size=int(params.get("segment_size", 0)), local_first=True)
        self._memory = None
        if l1_memory_desc is not None and l1_memory_desc.ptr:
            self._memory = (ctypes.c_char * l1_memory_desc.size).from_address(l1_memory_desc.ptr)
            self.store.register(self._memory)
        self._stores, self._lookups, self._loads = _Tasks(), _Tasks(), _Tasks()
        self._lock = threading.Lock()
        self._next = 0
        self._pool = concurrent.futures.ThreadPoolExecutor(
            int(params.get("threads", 4)), thread_name_prefix="snowskin")

    # ---- names ----

    def _space(self, key):
        what = (key.model_name, key.cache_salt, self.tag)
        return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()

    def _key(self, key):
        return "%s/%s/%x/%08x" % (self._space(key), key.chunk_hash.hex(), key.object_group_id,
                                  key.kv_rank)

    @staticmethod
    def _ranks(key):
        """(how many shares a chunk has, which one this is); kv_rank has both in its high bytes"""
        return key.kv_rank >> 24 & 0xff, key.kv_rank >> 16 & 0xff

    def _group(self, key):
        """None: the chunk is one object."""
        shares, _ = self._ranks(key)
        if shares < 2:
            return None
        return "%s/%s/%x/of%d" % (self._space(key), key.chunk_hash.hex(), key.object_group_id,
                                  shares)

    def _member(self, key):
        group, (shares, share) = self._group(key), self._ranks(key)
        return None if group is None else snowskin.Member(group, size=shares, index=share,
                                                          adopt=True)

    # ---- tasks ----

    def _submit(self, tasks, work, failed, *arguments):
        """A number; the result of work, or failed(), waits under it in the end."""
        with self._lock:
            number, self._next = self._next, self._next + 1

        def run():
            try:
                result = work(*arguments)
            except Exception as error:  # an error of this task, not of LMCache's thread
                log.warning("snowskin: %s: %s", work.__name__.strip("_"), error)
                result = failed()
            with self._lock:
                tasks.results[number] = result
                tasks.notifier.notify()

        self._pool.submit(run)
        return number

    def _take(self, tasks, number):
        with self._lock:
            return tasks.results.pop(number, None)

    def get_store_event_fd(self):
        return self._stores.notifier.fileno()

    def get_lookup_and_lock_event_fd(self):
        return self._lookups.notifier.fileno()

    def get_load_event_fd(self):
        return self._loads.notifier.fileno()

    def submit_store_task(self, keys, objects):
        return self._submit(self._stores, self._store, lambda: L2StoreResult(False, 0),
                            list(keys), list(objects))

    def pop_completed_store_tasks(self):
        with self._lock:
            done, self._stores.results = self._stores.results, {}
        return done

    def submit_lookup_and_lock_task(self, keys, group_layout_descs):
        keys = list(keys)
        return self._submit(self._lookups, self._look_up, lambda: Bitmap(len(keys)), keys)

    def query_lookup_and_lock_result(self, task_id):
        return self._take(self._lookups, task_id)

    def submit_unlock(self, keys):
        """Leases end by themselves."""

    def submit_load_task(self, keys, objects):
        keys = list(keys)
        return self._submit(self._loads, self._load, lambda: Bitmap(len(keys)), keys,
                            list(objects))

    def query_load_result(self, task_id):
        return self._take(self._loads, task_id)

    # ---- work ----

    def _store(self, keys, objects):
        values = [one.byte_array for one in objects]
        done = self.store.put_many([self._key(key) for key in keys], values,
                                   member=[self._member(key) for key in keys])
        errors = [one for one in done if isinstance(one, snowskin.Error)]
        if errors:
            log.warning("snowskin: %d of %d chunks were not stored: %s", len(errors), len(keys),
                        errors[0])
        new = [index for index, one in enumerate(done) if one is True]
        sizes = [len(values[index]) for index in new]
        if new:
            self._notify_keys_stored([keys[index] for index in new], sizes)
        return L2StoreResult(not errors, sum(sizes))

    def _look_up(self, keys):
        found = [one is True for one in self.store.exists_many(
            [self._key(key) for key in keys], touch=True, lease=True)]
        groups = [self._group(key) if there else None for key, there in zip(keys, found)]
        asked = list(dict.fromkeys(group for group in groups if group is not None))
        whole = {group for group, stat in zip(asked, self.store.group_stat_many(asked))
                 if isinstance(stat, dict) and stat["state"] == "complete"} if asked else set()
        bits, hits = Bitmap(len(keys)), []
        for index, (key, there, group) in enumerate(zip(keys, found, groups)):
            if there and (group is None or group in whole):
                bits.set(index)
                hits.append(key)
        if hits:
            self._notify_keys_accessed(hits)
        return bits

    def _load(self, keys, objects):
        memory = [one.byte_array for one in objects]
        bits = Bitmap(len(keys))
        got = self.store.get_into_many([self._key(key) for key in keys], memory)
        for index, (size, into) in enumerate(zip(got, memory)):
            if size == len(into):
                bits.set(index)
        return bits

    # ---- the rest ----

    def delete(self, keys):
        """Removes chunks, whoever reads them."""
        keys = list(keys)
        names = [self._key(key) for key in keys]
        try:
            sizes = self.store.size_many(names)
            done = self.store.remove_many(names, force=True)
        except snowskin.Error as error:
            log.warning("snowskin: delete: %s", error)
            return
        gone = [index for index, one in enumerate(done) if one is True]
        if gone:
            self._notify_keys_deleted(
                [keys[index] for index in gone],
                [sizes[index] if isinstance(sizes[index], int) else 0 for index in gone])

    def report_status(self):
        try:
            nodes = self.store.nodes()
        except snowskin.Error as error:
            return {"is_healthy": False, "type": type(self).__name__, "reason": str(error)}
        return {"is_healthy": True, "type": type(self).__name__, "nodes": len(nodes)}

    def close(self):
        """Waits for tasks under way."""
        self._pool.shutdown(wait=True)
        if self._memory is not None:
            self.store.unregister(self._memory)
            self._memory = None
        self.store.close()
        for tasks in (self._stores, self._lookups, self._loads):
            tasks.notifier.close()
