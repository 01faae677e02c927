"""SGLang's HiCache on Snowskin, without the package `mooncake`.

    python -m sglang.launch_server ... --hicache-storage-backend dynamic \\
        --hicache-storage-backend-extra-config '{"backend_name": "snowskin", "interface_v1": 1,
            "module_path": "snowskin.sglang", "class_name": "SnowskinHiCache",
            "master": "127.0.0.1:7600", "segment_size": 4294967296}'

A page is one object for each rank, whatever pieces the layout of the host pool has, and the ranks'
objects are a group of that size, whose parent is the page before it.  So what a look-up reports is
whole: a page counts when every rank's share is there, and it is evicted whole, the end of a prompt
first.  One call asks for all pages of a prompt.

Pools beside it (Mamba states, sliding windows, indexers, drafts) work likewise: a page of each is a
group of its own, below the page that it belongs to, so it is evicted no later than that page.

Other keys of the configuration: `timeout` (seconds of a call), `token`, `tag` (parts name spaces).
"""
import ctypes
import hashlib
import logging

import snowskin
from sglang.srt.mem_cache.hicache_storage import (HiCacheStorage, PoolHitPolicy, PoolName,
                                                  PoolTransferResult)

log = logging.getLogger(__name__)


def _ranks(config, replicated):
    """(how many shares a page has, which one is this rank's)"""
    if replicated:  # one share, but for shards of decode context parallelism
        across, own = getattr(config, "dcp_size", 1), getattr(config, "dcp_rank", 0)
    else:
        across, own = config.tp_size, config.tp_rank
    return across * config.pp_size, config.pp_rank * across + own


def _memory(pointer, size):
    return (ctypes.c_char * size).from_address(pointer)


def _is_replicated(name, pool, config):
    """Whether ranks of tensor parallelism hold the same of this pool."""
    if name == PoolName.MAMBA:
        return False
    if name in (PoolName.DRAFT, PoolName.DRAFT_SWA):  # of another model
        return any(kind.__name__ in ("MLATokenToKVPoolHost", "DeepSeekV4PagedHostPool")
                   for kind in type(pool).__mro__)
    if name in (PoolName.KV, PoolName.SWA, PoolName.AUXILIARY_SWA):
        return config.is_mla_model
    return True


class _Pool:
    """One host pool: whose share of its pages is here, and how its memory lies."""

    def __init__(self, name, host, config):
        self.name, self.host = name, host
        self.shares, self.share = _ranks(config, _is_replicated(name, host, config))

    def buffers(self):
        """All its memory; a logical pool has none."""
        ask = getattr(self.host, "get_hybrid_pool_buffer", None)
        buffers = ask() if ask is not None else getattr(self.host, "kv_buffer", None)
        if not isinstance(buffers, (list, tuple)):
            buffers = [buffers]
        return [buffer for buffer in buffers if buffer is not None]

    def pages(self, count, host_indices):
        """The memory of each page: a list of pieces."""
        pointers, sizes = self.host.get_page_buffer_meta(host_indices)
        pieces = len(pointers) // count if count else 0
        if not count or pieces * count != len(pointers):
            raise ValueError("snowskin: %d pieces of memory for %d pages of %s" % (
                len(pointers), count, self.name))
        memory = [_memory(pointer, size) for pointer, size in zip(pointers, sizes)]
        return [memory[index * pieces:(index + 1) * pieces] for index in range(count)]


class SnowskinHiCache(HiCacheStorage):
    """One rank's; any number of threads may use it."""

    def __init__(self, storage_config, kwargs=None):
        extra = dict(storage_config.extra_config or {})
        if "master" not in extra:
            raise ValueError("snowskin: the extra configuration has no 'master' (host:port)")
        if getattr(storage_config, "attn_cp_size", 1) > 1:
            raise ValueError("snowskin: attention context parallelism is not known here")
        self.config = storage_config
        self.shares, self.share = _ranks(storage_config, storage_config.is_mla_model)
        self.writes = getattr(storage_config, "is_storage_writer", True)
        what = (storage_config.model_name, self.shares, storage_config.is_mla_model,
                extra.get("tag", ""))
        self.space = hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()
        self.store = snowskin.Store(
            extra["master"], token=extra.get("token"), timeout=extra.get("timeout"),
            segment_size=int(extra.get("segment_size", 0)), local_first=True)
        self.mem_pool_host = None
        self._kept = []  # registered tensors
        self._pools = {}  # name: _Pool

    def register_mem_pool_host(self, mem_pool_host):
        super().register_mem_pool_host(mem_pool_host)
        self._add(PoolName.KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        if host_pool_name != PoolName.KV:  # that is register_mem_pool_host's
            self._add(host_pool_name, host_pool)

    def _add(self, name, host):
        pool = _Pool(name, host, self.config)
        for buffer in pool.buffers():
            if not any(buffer is kept for kept in self._kept):
                self.store.register(buffer)
                self._kept.append(buffer)
        self._pools[name] = pool

    def _is_logical(self):
        """The pool of pages has no memory: pools beside it carry all there is."""
        return getattr(self.mem_pool_host, "kv_buffer", None) is None

    # ---- names ----

    def _group(self, page):
        return "%s/%s" % (self.space, page)

    def _key(self, page):
        return "%s/%s/%d" % (self.space, page, self.share)

    def _side_group(self, pool, page):
        return "%s.%s" % (self._group(page), pool.name)

    def _side_key(self, pool, page):
        return "%s.%s/%d" % (self._group(page), pool.name, pool.share)

    def _side_members(self, pool, pages):
        return [snowskin.Member(self._side_group(pool, page), size=pool.shares, index=pool.share,
                                adopt=True,
                                parent=None if self._is_logical() else self._group(page))
                for page in pages]

    def _members(self, pages, before):
        """Each page's share of its group; a page follows the one before it."""
        chain = [self._group(page) for page in ([before[-1]] if before else []) + pages]
        parents = chain[:len(pages)] if before else [None, *chain[:-1]]
        return [snowskin.Member(self._group(page), size=self.shares, index=self.share, adopt=True,
                                parent=parent) for page, parent in zip(pages, parents)]

    @staticmethod
    def _before(extra_info):
        return list(getattr(extra_info, "prefix_keys", None) or [])

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

    def _load(self, keys, pages):
        """Which objects were there, of the size of their memory."""
        try:
            found = self.store.get_into_many(keys, pages)
        except snowskin.Error as error:
            log.warning("snowskin: get: %s", error)
            return [False] * len(keys)
        return [size == sum(map(len, page)) for size, page in zip(found, pages)]

    def _save(self, keys, pages, members, depth=None):
        """Which objects are there now."""
        try:
            done = self.store.put_many(keys, pages, member=members, depth=depth)
        except snowskin.Error as error:
            log.warning("snowskin: put: %s", error)
            return [False] * len(keys)
        return [not isinstance(one, snowskin.Error) for one in done]

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        keys = list(keys)
        if self._is_logical():
            return [True] * len(keys)
        return self._load([self._key(key) for key in keys],
                          self._pools[PoolName.KV].pages(len(keys), host_indices))

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        keys = list(keys)
        if not self.writes or self._is_logical():  # another replica's work, or nobody's
            return [True] * len(keys)
        before = self._before(extra_info)
        return self._save([self._key(key) for key in keys],
                          self._pools[PoolName.KV].pages(len(keys), host_indices),
                          self._members(keys, before), len(before))

    # ---- pages with pools beside them: hybrid models ----

    def _pool(self, transfer):
        if transfer.name not in self._pools:
            raise ValueError("snowskin: the pool %s was not registered" % transfer.name)
        return self._pools[transfer.name]

    def _whole(self, pool, pages):
        """Which pages of a pool are there, with every rank's share."""
        try:
            stats = self.store.group_stat_many([self._side_group(pool, page) for page in pages])
        except snowskin.Error as error:
            log.warning("snowskin: look-up of %s: %s", pool.name, error)
            return [False] * len(pages)
        return [isinstance(stat, dict) and stat["state"] == "complete" for stat in stats]

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        """The longest prefix that every pool can serve, and all lengths that they can."""
        keys = list(keys)
        count = len(keys) if self._is_logical() else self.batch_exists(keys, extra_info)
        hits, restorable = ({PoolName.KV: count} if count else {}), list(range(1, count + 1))
        for transfer in pool_transfers or []:
            if not restorable:
                break
            if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
                window = count
            elif transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
                window = max(1, len(transfer.keys or ()))
            else:
                raise ValueError("snowskin: the hit policy %s is not known" % transfer.hit_policy)
            run, served = 0, []  # pages without a hole up to here; lengths that it serves
            for length, there in enumerate(self._whole(self._pool(transfer), keys[:count]), 1):
                run = run + 1 if there else 0
                if run >= min(window, length):
                    served.append(length)
            if served:
                hits[transfer.name] = served[-1]
            restorable = sorted(set(restorable) & set(served))
        return PoolTransferResult(restorable[-1] if restorable else 0, hits, restorable)

    def _transfers(self, transfers):
        """(pool, its pages, the memory of each) of each transfer."""
        return [(pool, list(transfer.keys), pool.pages(len(transfer.keys), transfer.host_indices))
                for transfer in transfers for pool in [self._pool(transfer)]]

    @staticmethod
    def _by_pool(parts, done):
        """A flat list, for each pool its own."""
        results, at = {}, 0
        for pool, pages, _ in parts:
            results[pool.name] = done[at:at + len(pages)]
            at += len(pages)
        return results

    def batch_get_v2(self, transfers, extra_info=None):
        parts = self._transfers(transfers)
        return self._by_pool(parts, self._load(
            [self._side_key(pool, page) for pool, pages, _ in parts for page in pages],
            [memory for _, _, many in parts for memory in many]) if parts else [])

    def batch_set_v2(self, transfers, extra_info=None):
        parts = self._transfers(transfers)
        return self._by_pool(parts, self._save(
            [self._side_key(pool, page) for pool, pages, _ in parts for page in pages],
            [memory for _, _, many in parts for memory in many],
            [member for pool, pages, _ in parts for member in self._side_members(pool, pages)])
            if parts else [])

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
