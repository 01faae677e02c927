"""Registered memory: one table for an engine and the stores that were set up with it.

Problem.  Engines register the memory of a process once, at the transfer engine or at the store, and
          then use it through both; so what one knows the other has to know, and forget with it.
Idea.     The table belongs to the engine; a store without one has a table to itself.  Who joins
          learns what is there; registering and unregistering, through whichever, is done at all.
Invariants.
  R1  An area is in the table when everyone who joined has it registered.
  R2  Unregistering has left the engine last: it waits there for peers, and at stores for calls.
Threads.  Any; `_lock` guards the table, and is not held while something waits.
"""
import threading
import weakref


class Registrations:
    """Of one process's memory. Those who join have register(at, size) and unregister(at), which
    answer 0 or a code."""

    def __init__(self, engine=None):
        self._lock = threading.Lock()
        self._areas = {}  # address: (bytes, a weak reference to the store it came through, or None)
        self._engine = engine
        self._stores = weakref.WeakKeyDictionary()  # store: its way to register and unregister

    def _all(self):
        return ([self._engine] if self._engine is not None else []) + list(self._stores.values())

    def add(self, at, size, store=None):
        """0, or the code of the first that refuses; then nobody has it."""
        with self._lock:
            done = []
            for one in self._all():
                code = one.register(at, size)
                if code != 0:
                    for before in done:
                        before.unregister(at)
                    return code
                done.append(one)
            self._areas[at] = (size, weakref.ref(store) if store is not None else None)
        return 0

    def remove(self, at):
        """0; a code: it is not registered, or stayed in use until a deadline, and stays."""
        with self._lock:
            area, everyone = self._areas.pop(at, None), self._all()
        if area is None:
            return everyone[0].unregister(at)  # its own word for it
        done = []
        for one in reversed(everyone):
            code = one.unregister(at)
            if code != 0:
                with self._lock:
                    for before in done:
                        before.register(at, area[0])
                    self._areas[at] = area
                return code
            done.append(one)
        return 0

    def size(self, at):
        """Bytes of the area that begins there; None: there is none."""
        area = self._areas.get(at)
        return area[0] if area is not None else None

    def join(self, store, way, others=None):
        """A store learns what is registered; what it registered at `others` comes along."""
        with self._lock:
            self._stores[store] = way
            for at, (size, _) in self._areas.items():
                way.register(at, size)
        for at, size in others.leave(store) if others is not None else ():
            self.add(at, size, store)

    def leave(self, store):
        """A store ends; what came through it is forgotten.  (address, bytes) of each."""
        with self._lock:
            self._stores.pop(store, None)
            gone = [(at, size) for at, (size, by) in self._areas.items()
                    if by is not None and by() is store]
            for at, _ in gone:
                del self._areas[at]
            everyone = self._all()
        for at, _ in gone:
            for one in everyone:
                one.unregister(at)
        return gone
