"""SGLang's HiCache on Snowskin, without the package `mooncake`.

    python -m sglang.launch_server ... --hicache-storage-backend dynamic \\
        --hicache-storage-backend-extra-config '{"backend_name": "snowskin", "interface_v1": 1,
            "module_path": "snowskin.sglang", "class_name": "SnowskinHiCache",
            "master": "127.0.0.1:7600", "segment_size": 4294967296}'

A page is one object for each rank, whatever pieces the layout of the host pool has, and the ranks'
objects are a group of that size, whose parent is the page before it.  So what a look-up reports is
whole: a page counts when every rank's share is there, and it is evicted whole, the end of a prompt
first.  One call asks for all pages of a prompt.

Other keys of the configuration: `timeout` (seconds of a call), `token`, `tag` (parts name spaces).
"""
import ctypes
import hashlib
import logging

import snowskin
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

log = logging.getLogger(__name__)


def _ranks(config):
    """(how many shares a page has, which one is this rank's)"""
    if getattr(config, "attn_cp_size", 1) > 1:
        raise ValueError("snowskin: attention context parallelism is not known here")
    if config.is_mla_model:  # replicas of one share, but for shards of decode context parallelism
        across, own = getattr(config, "dcp_size", 1), getattr(config, "dcp_rank", 0)
    else:
        across, own = config.tp_size, config.tp_rank
    return across * config.pp_size, config.pp_rank * across + own


def _memory(pointer, size):
    return (ctypes.c_char * size).from_address(pointer)


class SnowskinHiCache(HiCacheStorage):
    """One rank's; any number of threads may use it."""

    def __init__(self, storage_config, kwargs=None):
        extra = dict(storage_config.extra_config or {})
        if "master" not in extra:
            raise ValueError("snowskin: the extra configuration has no 'master' (host:port)")
        self.shares, self.share = _ranks(storage_config)
        self.writes = getattr(storage_config, "is_storage_writer", True)
        what = (storage_config.model_name, self.shares, storage_config.is_mla_model,
                extra.get("tag", ""))
        self.space = hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()
        self.store = snowskin.Store(
            extra["master"], token=extra.get("token"), timeout=extra.get("timeout"),
            segment_size=int(extra.get("segment_size", 0)), local_first=True)
        self.mem_pool_host = None
        self._kept = []  # registered tensors

    def register_mem_pool_host(self, mem_pool_host):
        super().register_mem_pool_host(mem_pool_host)
        buffers = getattr(mem_pool_host, "kv_buffer", None)
        for buffer in buffers if isinstance(buffers, (list, tuple)) else [buffers]:
            if buffer is not None:
                self.store.register(buffer)
                self._kept.append(buffer)

    # ---- names ----

    def _group(self, page):
        return "%s/%s" % (self.space, page)

    def _key(self, page):
        return "%s/%s/%d" % (self.space, page, self.share)

    def _members(self, pages, before):
        """Each page's share of its group; a page follows the one before it."""
        chain = [self._group(page) for page in ([before[-1]] if before else []) + pages]
        parents = chain[:len(pages)] if before else [None, *chain[:-1]]
        return [snowskin.Member(self._group(page), size=self.shares, index=self.share, adopt=True,
                                parent=parent) for page, parent in zip(pages, parents)]

    @staticmethod
    def _before(extra_info):
        return list(getattr(extra_info, "prefix_keys", None) or [])

    def _pages(self, keys, host_indices):
        """The memory of each page: a list of pieces."""
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        pieces = len(pointers) // len(keys) if keys else 0
        if not keys or pieces * len(keys) != len(pointers):
            raise ValueError("snowskin: %d pieces of memory for %d pages" % (len(pointers),
                                                                           len(keys)))
        memory = [_memory(pointer, size) for pointer, size in zip(pointers, sizes)]
        return [memory[index * pieces:(index + 1) * pieces] for index in range(len(keys))]

    # ---- pages: what the cache controller calls ----

    def batch_exists(self, keys, extra_info=None):
        """How many leading pages are there, with every rank's share."""
        try:
            return self.store.match_prefix([self._group(key) for key in keys], groups=True)[0]
        except snowskin.Error as error:
            log.warning("snowskin: look-up: %s", error)
            return 0

    def exists(self, key):
        return self.batch_exists([key]) == 1

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        keys = list(keys)
        pages = self._pages(keys, host_indices)
        try:
            found = self.store.get_into_many([self._key(key) for key in keys], pages)
        except snowskin.Error as error:
            log.warning("snowskin: get: %s", error)
            return [False] * len(keys)
        return [size == sum(map(len, page)) for size, page in zip(found, pages)]

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        keys = list(keys)
        if not self.writes:  # another replica's work
            return [True] * len(keys)
        before = self._before(extra_info)
        try:
            done = self.store.put_many(
                [self._key(key) for key in keys], self._pages(keys, host_indices),
                member=self._members(keys, before), depth=len(before))
        except snowskin.Error as error:
            log.warning("snowskin: put: %s", error)
            return [False] * len(keys)
        return [not isinstance(one, snowskin.Error) for one in done]

    # ---- single values: the older interface ----

    def get(self, key, target_location=None, target_sizes=None):
        """Fills the tensor target_location, and returns it; None: there is no such value."""
        found = self.store.get_into(self._key(key), target_location)
        return None if found is None else target_location

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        return [self.get(key, target) for key, target in zip(keys, target_locations)]

    def set(self, key, value=None, target_location=None, target_sizes=None):
        return self.batch_set([key], [value])

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        done = self.store.put_many([self._key(key) for key in keys], list(values),
                                   member=self._members(list(keys), []))
        return not any(isinstance(one, snowskin.Error) for one in done)

    def clear(self):
        """Removes what this name space holds."""
        self.store.remove_match("prefix", "%s/" % self.space, force=True)

    def close(self):
        self.store.close()
