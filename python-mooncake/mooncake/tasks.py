"""Copies and moves of objects between segments, by the nodes themselves."""
import time
import uuid

from mooncake.config import TaskStatus, TaskType

INVALID, TASK_NOT_FOUND = -600, -1400
_NONE = (0, 0)
_COPY, _MOVE = 1, 2  # enum snow_task_kind
_STATES = {"running": TaskStatus.PROCESSING, "done": TaskStatus.SUCCESS,
           "failed": TaskStatus.FAILED, "cancelled": TaskStatus.FAILED}


class QueryTaskResponse:
    """How far a task is."""

    __slots__ = ("id", "type", "status", "created_at_ms_epoch", "last_updated_at_ms_epoch",
                 "assigned_client", "message")

    def __init__(self, task_id, kind, status, created, message):
        self.id = task_id
        self.type = kind
        self.status = status
        self.created_at_ms_epoch = created
        self.last_updated_at_ms_epoch = int(time.time() * 1000)
        self.assigned_client = _NONE
        self.message = message


class Tasks:
    __slots__ = ()

    def _segment_numbers(self, names):
        """Numbers of nodes by the names of their segments; None: one is unknown."""
        found = {row[2] or row[3]: row[0] for row in self._nodes() or ()}
        return [found[name] for name in names] if all(name in found for name in names) else None

    def create_copy_task(self, key, targets):
        """One more copy on each target: (id, 0), or ((0, 0), a code)."""
        numbers = self._segment_numbers(list(targets))
        if not numbers:
            return _NONE, INVALID
        return self._start(TaskType.REPLICA_COPY,
                           [(_COPY, key, 0, number) for number in numbers])

    def create_move_task(self, key, source, target):
        """The copy on one segment goes to another: (id, 0), or ((0, 0), a code)."""
        numbers = self._segment_numbers([source, target])
        if not numbers or source == target:
            return _NONE, INVALID
        return self._start(TaskType.REPLICA_MOVE, [(_MOVE, key, *numbers)])

    def _start(self, kind, wanted):
        running = []
        for one in wanted:
            code, number = self._task_start(*one)
            if code != 0:
                return _NONE, code
            if number != 0:  # else there is such a copy already
                running.append(number)
        number = uuid.uuid4().int
        task_id = (number >> 64, number & (2**64 - 1))
        self._tasks[task_id] = (kind, running, int(time.time() * 1000))
        return task_id, 0

    def query_task(self, task_id):
        """(QueryTaskResponse, 0), or (None, a code)."""
        known = self._tasks.get(tuple(task_id))
        if known is None:
            return None, TASK_NOT_FOUND
        kind, running, created = known
        status, message = TaskStatus.SUCCESS, ""
        for number in running:
            row = self._task(number)
            if row is None:
                return None, TASK_NOT_FOUND
            state = _STATES[row[0]]
            if state != TaskStatus.SUCCESS and status != TaskStatus.FAILED:
                status, message = state, row[1]
        return QueryTaskResponse(tuple(task_id), kind, status, created, message), 0
