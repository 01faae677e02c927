"""Tensors that ranks write and read in parts.

Which part an object holds is told by its header; how many parts there are, by a manifest beside
them, so that a reader may ask for other parts than were written.  Objects of the tensor K:

  K                          the whole tensor
  K_tp_R                     part R, written with one axis of kind tp
  K__dp_0of2__tp_1of4_sd0    a part, written with several axes, in the order of their kinds
  K__writer_RofN_sdD         part R of N along dimension D, written with a writer_partition
  K__parallelism_manifest    of the parts by axes;  K__writer_manifest: of the others
"""
import collections
import copy
import ctypes
import struct

from mooncake.tensors import (INVALID, _AXES, _DP, _DTYPES, _EP, _PP, _RANKS, _SIZE, _TP,
                              _deserialize_tensor, _fits_replicas, _header_of, _memory_at,
                              _read_axes, _read_header, _tensor_or_none, _torch, _under)

_KINDS = {"dp": _DP, "tp": _TP, "ep": _EP, "pp": _PP}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_NUMBERS = {_EP: ("expert_id", "_eid"), _PP: ("stage_id", "_sid")}
_MANIFEST = struct.Struct("<IHHiiiiii8q")
_MANIFEST_MAGIC, _MANIFEST_VERSION = 0x574D414E, 1

# A row of a header; -1 for what it has not.
_Axis = collections.namedtuple("_Axis", "kind rank size split_dim number")
# What a put is made of: (key, tensor, header) each, and perhaps (key, bytes) of a manifest.
_Plan = collections.namedtuple("_Plan", "parts manifest")
# Where the parts of a tensor may be: shape is None when no manifest tells it.
_Layout = collections.namedtuple("_Layout", "keys split_dim shape")


class ParallelAxis:
    """One way in which a tensor is spread over ranks."""

    __slots__ = ("kind", "rank", "size", "split_dim", "expert_id", "stage_id")

    def __init__(self):
        self.kind = ""
        self.rank = 0
        self.size = 1
        self.split_dim = None
        self.expert_id = None
        self.stage_id = None


class TensorParallelism:
    """All of them: a list of ParallelAxis."""

    __slots__ = ("axes",)

    def __init__(self):
        self.axes = []


class ReadTarget:
    """What a read is to give: the object as it is stored, a part, or the whole."""

    __slots__ = ("_mode", "parallelism")

    def __init__(self):
        self._mode = "as_stored"
        self.parallelism = None

    @property
    def mode(self):
        return self._mode

    @mode.setter
    def mode(self, value):
        if str(value).lower() not in ("as_stored", "shard", "full"):
            raise RuntimeError("mode %r is none of as_stored, shard, full" % (value,))
        self._mode = value


# ---- what callers say; each of these raises ValueError ----

def _axis_of(told):
    kind = _KINDS.get(str(told.kind).lower(), -1)
    split_dim = -1 if told.split_dim is None else int(told.split_dim)
    number = getattr(told, _NUMBERS[kind][0]) if kind in _NUMBERS else None
    axis = _Axis(kind, int(told.rank), int(told.size), split_dim,
                 -1 if number is None else int(number))
    if kind < 0 or not 0 <= axis.rank < axis.size or (kind == _TP) != (told.split_dim is not None) \
            or (kind in _NUMBERS and axis.number < 0):
        raise ValueError("axis %s: rank %r of %r, split_dim %r, number %r"
                         % (told.kind, told.rank, told.size, told.split_dim, number))
    return axis


def _axes_of(told):
    """Rows; None for no parallelism."""
    if told is None:
        return None
    try:
        axes = [_axis_of(axis) for axis in told.axes]
    except (AttributeError, TypeError) as error:
        raise ValueError("parallelism: %s" % error) from error
    if len({axis.kind for axis in axes}) != len(axes) or not 0 < len(axes) <= _AXES:
        raise ValueError("%d axes, or two of one kind" % len(axes))
    return axes


def _partition_of(told):
    """The row of a writer_partition."""
    try:
        axis = _Axis(_TP, int(told.rank), int(told.size), int(told.split_dim), -1)
    except (AttributeError, TypeError) as error:
        raise ValueError("writer_partition: %s" % error) from error
    if not 0 <= axis.rank < axis.size or axis.split_dim < 0:
        raise ValueError("writer_partition: part %d of %d along %d" % axis[1:4])
    return axis


def _target_of(told):
    """(mode, rows or None)"""
    if told is None:
        return "as_stored", None
    try:
        mode, parallelism = str(told.mode).lower(), told.parallelism
        if parallelism is not None and not list(parallelism.axes):
            parallelism = None
    except (AttributeError, TypeError) as error:
        raise ValueError("target: %s" % error) from error
    axes = _axes_of(parallelism)
    if mode not in ("as_stored", "shard", "full") or (mode == "shard" and axes is None):
        raise ValueError("target: mode %r without parallelism" % mode)
    return mode, axes


# ---- keys and manifests ----

def _tp_of(axes):
    return next((axis for axis in axes or () if axis.kind == _TP), None)


def _part_key(key, axes):
    if len(axes) == 1 and axes[0].kind == _TP:
        return _under(key, "_tp_%d" % axes[0].rank)
    suffix = ""
    for axis in sorted(axes):
        suffix += "__%s_%dof%d" % (_NAMES[axis.kind], axis.rank, axis.size)
        if axis.kind == _TP:
            suffix += "_sd%d" % axis.split_dim
        if axis.kind in _NUMBERS:
            suffix += _NUMBERS[axis.kind][1] + str(axis.number)
    return _under(key, suffix)


def _writer_key(key, axis):
    return _under(key, "__writer_%dof%d_sd%d" % (axis.rank, axis.size, axis.split_dim))


def _writer_manifest_key(key):
    return _under(key, "__writer_manifest")


def _manifest_key(key):
    return _under(key, "__parallelism_manifest")


def _manifest_of(dtype, shape, axis):
    return _MANIFEST.pack(_MANIFEST_MAGIC, _MANIFEST_VERSION, _MANIFEST.size, dtype, len(shape),
                          axis.split_dim, axis.size, 0, 0, *shape, *[-1] * (_RANKS - len(shape)))


def _read_manifest(memory):
    """(shape of the whole, split_dim, how many parts), or None."""
    if memory is None or len(memory) < _MANIFEST.size:
        return None
    magic, version, size, dtype, rank, split_dim, count, *rest = _MANIFEST.unpack_from(memory)
    shape = rest[2:2 + rank] if 0 < rank <= _RANKS else []
    if (magic, version, size) != (_MANIFEST_MAGIC, _MANIFEST_VERSION, _MANIFEST.size) or \
            not 0 <= dtype < len(_DTYPES) or not 0 <= split_dim < len(shape) or count < 1 or \
            min(shape) < 0 or shape[split_dim] % count != 0:
        return None
    return shape, split_dim, count


# ---- writing ----

def _cut(tensor, axis):
    """The part of a whole tensor; ValueError."""
    if axis.split_dim >= tensor.dim() or tensor.shape[axis.split_dim] % axis.size != 0:
        raise ValueError("%s can not be cut in %d equal parts along %d"
                         % (tuple(tensor.shape), axis.size, axis.split_dim))
    size = tensor.shape[axis.split_dim] // axis.size
    return tensor.narrow(axis.split_dim, axis.rank * size, size).contiguous()


def _plan(key, tensor, axes, partition, all_ranks):
    """What is put for this tensor: with a writer_partition, its part of it; with axes of which one
    is of kind tp, that part, which is what was given when it is the only axis; with all_ranks every
    such part. ValueError."""
    if not isinstance(tensor, _torch().Tensor):
        raise ValueError("%r is no tensor" % type(tensor))
    split = partition or _tp_of(axes)
    if split is None:
        target = key if axes is None else _part_key(key, axes)
        return _Plan([(target, tensor, _header_of(tensor, None, axes or ()))], None)
    shape = list(tensor.shape)
    is_part = partition is None and len(axes) == 1 and not all_ranks
    if is_part:
        if split.split_dim >= len(shape):
            raise ValueError("split_dim %d of %d dimensions" % (split.split_dim, len(shape)))
        shape[split.split_dim] *= split.size
    parts = []
    for rank in range(split.size) if all_ranks and partition is None else (split.rank,):
        own = split._replace(rank=rank)
        rows = [own] if partition else [own if axis is split else axis for axis in axes]
        part = tensor if is_part else _cut(tensor, own)
        parts.append((_writer_key(key, own) if partition else _part_key(key, rows), part,
                      _header_of(part, shape, rows)))
    manifest = _manifest_of(_read_code(parts[0][2]), shape, split)
    return _Plan(parts, (_writer_manifest_key(key) if partition else _manifest_key(key), manifest))


def _read_code(header):
    return struct.unpack_from("<i", header, 8)[0]


def _alone(config):
    """The same for what is in no group."""
    if config is None or config.group_ids is None:
        return config
    config = copy.copy(config)
    for name in ("group_ids", "group_sizes", "group_indexes", "group_parents"):
        setattr(config, name, None)
    return config


# ---- reading ----

def _is_part(memory, axes):
    """Whether this object is just the part that these rows say."""
    try:
        _read_header(memory)
    except ValueError:
        return False
    found = _read_axes(memory)
    return found is not None and sorted(_plain(row) for row in found[1]) == sorted(axes)


def _plain(row):
    axis = _Axis(*row)
    return axis if axis.kind in _NUMBERS else axis._replace(number=-1)


def _check_parts(buffers, split_dim, ranks, count):
    """(dtype, shape of the whole) of parts that belong together; ValueError."""
    seen = set()
    for memory, rank in zip(buffers, ranks):
        if memory is None:
            raise ValueError("a part is missing")
        dtype, shape, _, _ = _read_header(memory)
        found = _read_axes(memory)
        whole, rows = found if found is not None else (shape, [])
        tp = _tp_of([_plain(row) for row in rows])
        if (tp is None) != (count == 1 and found is None) or \
                (tp is not None and tp[1:4] != (rank, count, split_dim)) or \
                split_dim >= max(len(shape), 1):
            raise ValueError("a part is of another layout")
        seen.add((dtype, tuple(whole)))
    if len(seen) != 1:
        raise ValueError("parts of different tensors")
    dtype, whole = seen.pop()
    return dtype, list(whole)


class _Room:
    """Where a tensor is read to: memory of the caller, or of its own."""

    def __init__(self, pointer=None, size=0):
        self.pointer, self.size = pointer, size

    def tensor(self, dtype, shape, whole, axes):
        """An empty tensor there; ValueError: no room."""
        torch = _torch()
        if self.pointer is None:
            return torch.empty(shape, dtype=dtype)
        header = _header_of(torch.empty(shape, dtype=dtype, device="meta"), whole, axes)
        total = _SIZE + struct.unpack_from("<Q", header, 32)[0]
        if self.pointer == 0 or total > self.size:
            raise ValueError("%d bytes are needed" % total)
        ctypes.memmove(self.pointer, header, _SIZE)
        return _deserialize_tensor(_memory_at(self.pointer, total))


class Parallelism:
    """The calls of tensors in parts; a number is 0 or a negative code."""

    __slots__ = ()

    # ---- put ----

    def _put_in_parts(self, keys, tensors, parallelisms, config, partitions, replace,
                      all_ranks=False):
        keys = list(keys)
        for told in (parallelisms, partitions):
            if told is not None and (not isinstance(told, (list, tuple)) or len(told) != len(keys)):
                return [INVALID] * len(keys)
        if len(tensors) != len(keys) or (parallelisms is not None and partitions is not None) or \
                (config is not None and not _fits_replicas(config)):
            return [INVALID] * len(keys)
        plans = []
        for index, key in enumerate(keys):
            axes = parallelisms[index] if parallelisms is not None else None
            partition = partitions[index] if partitions is not None else None
            try:
                plans.append(_plan(key, tensors[index], _axes_of(axes), None if partition is None
                                   else _partition_of(partition), all_ranks))
            except ValueError:
                plans.append(None)
        return self._put_plans(plans, config, replace)

    def _put_plans(self, plans, config, replace):
        parts = [(index, part) for index, plan in enumerate(plans) if plan is not None
                 for part in plan.parts]
        codes = [INVALID if plan is None else 0 for plan in plans]
        done = self._put_tensors([part[0] for _, part in parts], [part[1] for _, part in parts],
                                 config, replace, [part[2] for _, part in parts])
        for (index, _), code in zip(parts, done):
            codes[index] = codes[index] or code
        # A manifest follows its parts: who finds it finds them.
        told = [(index, *plan.manifest) for index, plan in enumerate(plans)
                if codes[index] == 0 and plan.manifest is not None]
        memory = [ctypes.create_string_buffer(content, len(content)) for _, _, content in told]
        put = self.batch_upsert_from if replace else self.batch_put_from
        more = () if config is None else (_alone(config),)
        if told:
            for (index, _, _), code in zip(told, put(
                    [key for _, key, _ in told], [ctypes.addressof(one) for one in memory],
                    [len(one) for one in memory], *more)):
                codes[index] = code
        return codes

    def _put_in_parts_from(self, keys, pointers, sizes, parallelisms, config, partitions, replace):
        keys, pointers, sizes = list(keys), list(pointers), list(sizes)
        if not len(keys) == len(pointers) == len(sizes):
            return [INVALID] * len(keys)
        tensors = [_tensor_or_none(_memory_at(pointer, size) if pointer else None)
                   for pointer, size in zip(pointers, sizes)]
        return self._put_in_parts(keys, tensors, parallelisms, config, partitions, replace, True)

    def put_tensor_with_parallelism(self, key, tensor, parallelism=None, config=None,
                                    writer_partition=None):
        """With one axis (tp) the tensor is this rank's part; with more, or a writer_partition, it
        is the whole, of which this rank's part is stored; with neither it is stored as it is."""
        return self._put_in_parts([key], [tensor], *_lists(parallelism, config, writer_partition),
                                  False)[0]

    def batch_put_tensor_with_parallelism(self, keys, tensors_list, parallelisms=None, config=None,
                                          writer_partitions=None):
        return self._put_in_parts(keys, list(tensors_list), parallelisms, config,
                                  writer_partitions, False)

    def upsert_tensor_with_parallelism(self, key, tensor, parallelism=None, config=None,
                                       writer_partition=None):
        return self._put_in_parts([key], [tensor], *_lists(parallelism, config, writer_partition),
                                  True)[0]

    def batch_upsert_tensor_with_parallelism(self, keys, tensors_list, parallelisms=None,
                                             config=None, writer_partitions=None):
        return self._put_in_parts(keys, list(tensors_list), parallelisms, config,
                                  writer_partitions, True)

    def put_tensor_with_parallelism_from(self, key, buffer_ptr, size, parallelism=None,
                                         config=None, writer_partition=None):
        """Of memory that holds header and data of the whole; with an axis tp every part is
        stored."""
        return self._put_in_parts_from([key], [buffer_ptr], [size],
                                       *_lists(parallelism, config, writer_partition), False)[0]

    def batch_put_tensor_with_parallelism_from(self, keys, buffer_ptrs, sizes, parallelisms=None,
                                               config=None, writer_partitions=None):
        return self._put_in_parts_from(keys, buffer_ptrs, sizes, parallelisms, config,
                                       writer_partitions, False)

    def upsert_tensor_with_parallelism_from(self, key, buffer_ptr, size, parallelism=None,
                                            config=None, writer_partition=None):
        return self._put_in_parts_from([key], [buffer_ptr], [size],
                                       *_lists(parallelism, config, writer_partition), True)[0]

    def batch_upsert_tensor_with_parallelism_from(self, keys, buffer_ptrs, sizes,
                                                  parallelisms=None, config=None,
                                                  writer_partitions=None):
        return self._put_in_parts_from(keys, buffer_ptrs, sizes, parallelisms, config,
                                       writer_partitions, True)

    # ---- get ----

    def _layouts(self, key, axes):
        """Where parts may be, the likeliest first."""
        by_axes, by_writers = (_read_manifest(memory) for memory in self.batch_get_buffer(
            [_manifest_key(key), _writer_manifest_key(key)]))
        split = _tp_of(axes)
        alone = axes is None or len(axes) == 1  # else other axes say which parts are meant
        rows = axes or [_Axis(_TP, 0, 1, 0, -1)]
        asked = None if split is None else (None, split.split_dim, split.size)
        for shape, split_dim, count in filter(None, (by_axes, asked)):
            keys = [_part_key(key, [_Axis(_TP, rank, count, split_dim, -1) if axis.kind == _TP
                                    else axis for axis in rows]) for rank in range(count)]
            yield _Layout(keys, split_dim, shape)
        if by_writers is not None and alone:
            shape, split_dim, count = by_writers
            yield _Layout([_writer_key(key, _Axis(_TP, rank, count, split_dim, -1))
                           for rank in range(count)], split_dim, shape)
        if alone:
            yield _Layout([key], 0 if split is None else split.split_dim, None)

    def _read_part(self, layout, axes, room):
        """The tensor, or the part of it that these axes say, from the parts of a layout.
        ValueError, RuntimeError: it can not be had from them."""
        wanted = _tp_of(axes)
        split_dim, count = layout.split_dim, len(layout.keys)
        ranks = range(count)
        whole_part = wanted is None or wanted.size == 1
        if layout.shape is not None and not whole_part and wanted.split_dim == split_dim:
            extent, part = layout.shape[split_dim], layout.shape[split_dim] // count
            if extent % wanted.size == 0 and part > 0:
                size = extent // wanted.size
                first = wanted.rank * size
                ranks = range(first // part, min((first + size - 1) // part + 1, count))
        buffers = self.batch_get_buffer([layout.keys[rank] for rank in ranks])
        dtype, whole = _check_parts(buffers, split_dim, ranks, count)
        shape, begin = list(whole), [0] * len(whole)
        if wanted is not None:
            if wanted.split_dim >= len(whole) or whole[wanted.split_dim] % wanted.size != 0:
                raise ValueError("no such part")
            shape[wanted.split_dim] //= wanted.size
            begin[wanted.split_dim] = wanted.rank * shape[wanted.split_dim]
        result = room.tensor(dtype, shape, whole, axes)
        for memory, rank in zip(buffers, ranks):
            _copy_part(_deserialize_tensor(memory), rank, split_dim, begin, result)
        return result

    def _read_stored(self, key, room):
        """The object of a key as it is stored: its memory, or None."""
        if room.pointer is None:
            return self.get_buffer(key)
        size = self.get_into(key, room.pointer, room.size)
        return _memory_at(room.pointer, size) if size > 0 else None

    def _read_target(self, key, target, room):
        try:
            mode, axes = _target_of(target)
        except ValueError:
            return None
        split = _tp_of(axes)
        exact = [key] if axes is None else [_part_key(key, axes)]
        if mode == "shard" and len(axes) == 1 and split is not None:
            exact.append(_writer_key(key, split))
        if mode != "full" or (axes is not None and split is None):
            for one in exact:
                memory = self._read_stored(one, room)
                if memory is not None and (axes is None or _is_part(memory, axes)):
                    return _tensor_or_none(memory)
            if mode == "as_stored" or split is None:
                return None
        for layout in self._layouts(key, axes):
            found = _or_none(self._read_part, layout, axes if mode == "shard" else (), room)
            if found is not None:
                return found
        return None

    def get_tensor_with_parallelism(self, key, target=None):
        """The tensor that target tells, put together from what is stored; or None."""
        return self._read_target(key, target, _Room())

    def batch_get_tensor_with_parallelism(self, keys, targets=None):
        keys = list(keys)
        if targets is None:
            return self.batch_get_tensor(keys)
        if not isinstance(targets, (list, tuple)) or len(targets) != len(keys):
            return [None] * len(keys)
        return [self.get_tensor_with_parallelism(*one) for one in zip(keys, targets)]

    def get_tensor_with_parallelism_into(self, key, buffer_ptr, size, target=None):
        """The same in memory of the caller, after its header."""
        return self._read_target(key, target, _Room(buffer_ptr, size))

    def batch_get_tensor_with_parallelism_into(self, keys, buffer_ptrs, sizes, targets=None):
        keys, pointers, sizes = list(keys), list(buffer_ptrs), list(sizes)
        targets = [None] * len(keys) if targets is None else targets
        if not isinstance(targets, (list, tuple)) or \
                not len(keys) == len(pointers) == len(sizes) == len(targets):
            return [None] * len(keys)
        return [self.get_tensor_with_parallelism_into(*one)
                for one in zip(keys, pointers, sizes, targets)]


def _lists(parallelism, config, partition):
    """Arguments of one tensor as those of a batch."""
    return (None if parallelism is None else [parallelism], config,
            None if partition is None else [partition])


def _or_none(call, *arguments):
    try:
        return call(*arguments)
    except (ValueError, RuntimeError):
        return None


def _copy_part(part, rank, split_dim, begin, result):
    """What of a part lies in the result, which begins at these indexes of the whole."""
    if part.dim() == 0:
        result.copy_(part)
        return
    at = [0] * part.dim()
    at[split_dim] = rank * part.shape[split_dim]
    for dim, first in enumerate(begin):
        low = max(at[dim], first)
        high = min(at[dim] + part.shape[dim], first + result.shape[dim])
        if high <= low:
            return
        part = part.narrow(dim, low - at[dim], high - low)
        result = result.narrow(dim, low - first, high - low)
    result.copy_(part)
