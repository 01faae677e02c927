"""Sessions: many partial reads, or writes, of the same keys.

A get session remembers which value of a key it began with; a read that finds another value there
answers "lease expired", so that no reader mixes two.  A put session is a put that spans calls."""
import threading

INVALID, NOT_READY, NOT_FOUND, LEASE_EXPIRED = -600, -703, -704, -707


class _Writing:
    """A put session of one key."""

    __slots__ = ("writer", "size", "lock")

    def __init__(self, writer, size):
        self.writer = writer
        self.size = size
        self.lock = threading.Lock()  # a commit waits for writes under way


class Sessions:
    __slots__ = ()

    # ---- get sessions ----

    def batch_get_session_start(self, keys):
        """0 or a code, each."""
        keys = list(keys)
        if self._setup_with is None:
            return []
        codes = []
        for key, version in zip(keys, self._versions(keys)):
            if isinstance(version, tuple):
                self._get_sessions[key] = version
            codes.append(0 if isinstance(version, tuple) else version)
        return codes

    def batch_get_into_multi_buffer_ranges(self, keys, all_buffer_ptrs, all_sizes,
                                           all_src_offsets):
        """Read parts of the keys of get sessions: the bytes, or a code, each."""
        keys = list(keys)
        if self._setup_with is None:
            return []
        lists = (list(all_buffer_ptrs), list(all_sizes), list(all_src_offsets))
        if any(len(one) != len(keys) for one in lists):
            return [INVALID] * len(keys)
        sessions = [self._get_sessions.get(key) for key in keys]
        results = [INVALID] * len(keys)
        flat, owners = ([], [], [], []), []
        for index, (key, session, row) in enumerate(zip(keys, sessions, zip(*lists))):
            pointers, sizes, offsets = map(list, row)
            if session is None or not len(pointers) == len(sizes) == len(offsets) or any(
                    size + offset > session[1] for size, offset in zip(sizes, offsets)):
                continue
            results[index] = 0
            for values, more in zip(flat, ([key] * len(sizes), pointers, sizes, offsets)):
                values.extend(more)
            owners += [index] * len(sizes)
        for owner, size in zip(owners, self._read_ranges(*flat)):
            if size < 0 <= results[owner]:
                results[owner] = size
            elif results[owner] >= 0:
                results[owner] += size
        return self._same_versions(keys, sessions, results)

    def _same_versions(self, keys, sessions, results):
        read = [index for index, result in enumerate(results) if result >= 0]
        versions = self._versions([keys[index] for index in read])
        for index, version in zip(read, versions):
            if version != sessions[index]:
                results[index] = LEASE_EXPIRED
        return results

    def batch_get_session_end(self, keys):
        """0; -1: this store is not set up."""
        if self._setup_with is None:
            return -1
        for key in list(keys):
            self._get_sessions.pop(key, None)
        return 0

    # ---- put sessions ----

    def batch_put_session_start(self, keys, sizes, config=None):
        """0 or a code, each: -705 when the key has a value."""
        keys, sizes = list(keys), list(sizes)
        if self._setup_with is None:
            return []
        if len(keys) != len(sizes):
            return [INVALID] * len(keys)
        return [self._put_session_start(key, size, config, index, len(keys))
                for index, (key, size) in enumerate(zip(keys, sizes))]

    def _put_session_start(self, key, size, *config):
        with self._lock:
            if key in self._put_sessions:
                return INVALID
            self._put_sessions[key] = None  # being opened
        writer = INVALID
        try:
            writer = self._writer(key, size, *config)
        finally:
            with self._lock:
                if isinstance(writer, int):
                    self._put_sessions.pop(key, None)
                else:
                    self._put_sessions[key] = _Writing(writer, size)
        return writer if isinstance(writer, int) else 0

    def batch_put_from_multi_buffer_ranges(self, keys, all_buffer_ptrs, all_sizes,
                                           all_dst_offsets):
        """Write parts of the keys of put sessions: the bytes of this call, or a code, each."""
        keys = list(keys)
        if self._setup_with is None:
            return []
        lists = (list(all_buffer_ptrs), list(all_sizes), list(all_dst_offsets))
        if any(len(one) != len(keys) for one in lists):
            return [INVALID] * len(keys)
        results = []
        for key, pointers, sizes, offsets in zip(keys, *lists):
            session = self._put_sessions.get(key)
            if session is None:
                results.append(INVALID)
                continue
            with session.lock:
                results.append(session.writer.write(pointers, sizes, offsets))
        return results

    def batch_put_session_end(self, keys):
        """Commit: 0 or a code, each; with a code the session stays."""
        keys = list(keys)
        if self._setup_with is None:
            return []
        return [self._put_session_end(key) for key in keys]

    def _put_session_end(self, key):
        session = self._put_sessions.get(key)
        if session is None:
            return INVALID
        with session.lock:
            code = session.writer.commit()
        if code == 0:
            self._put_sessions.pop(key, None)
        return code

    def batch_put_session_revoke(self, keys):
        """Give up: 0, each."""
        keys = list(keys)
        if self._setup_with is None:
            return []
        for key in keys:
            session = self._put_sessions.pop(key, None)
            if session is not None:
                with session.lock:
                    session.writer.abort()
        return [0] * len(keys)

    def _end_sessions(self):
        self._get_sessions.clear()
        for session in list(self._put_sessions.values()):
            if session is not None:
                with session.lock:
                    session.writer.abort()
        self._put_sessions.clear()
