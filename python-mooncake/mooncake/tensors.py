"""Tensors: a header of 304 bytes, then the data.  torch is imported when it is first needed."""
import ctypes
import struct

INVALID = -600

_MAGIC, _VERSION = 0x4D4F4F4E, 1
_HEADER = struct.Struct("<IHHiiIIQQ8q8qII")
_AXIS = struct.Struct("<Iiiiiiq")
_AXES, _RANKS = 4, 8
_FULL, _SHARD = 0, 1
_DP, _TP, _EP, _PP = range(4)  # kinds of axes
_SIZE = _HEADER.size + _AXES * _AXIS.size
# In the order of their codes.
_DTYPES = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
           "uint64", "bool", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def _tensor_metadata_size():
    return _SIZE


def _torch():
    import torch
    return torch


def _code_of(dtype):
    name = str(dtype).rpartition(".")[2]
    if name not in _DTYPES:
        raise ValueError("tensors of %s can not be stored" % dtype)
    return _DTYPES.index(name)


def _header_of(tensor, whole=None, axes=()):
    """Of a tensor; or of the part of one whose shape is whole: axes are rows of (kind, rank, size,
    split_dim, id), at most four, -1 for what an axis has not. ValueError."""
    shape = list(tensor.shape)
    if len(shape) > _RANKS:
        raise ValueError("a tensor of %d dimensions: at most %d can be stored"
                         % (len(shape), _RANKS))
    padding = [-1] * (_RANKS - len(shape))
    rows = b"".join(_AXIS.pack(kind, index, rank, size, split_dim, max(number, 0),
                               shape[split_dim] if split_dim >= 0 else 0)
                    for index, (kind, rank, size, split_dim, number) in enumerate(axes))
    return _HEADER.pack(_MAGIC, _VERSION, _SIZE, _code_of(tensor.dtype), len(shape),
                        _SHARD if axes else _FULL, 0, _SIZE, tensor.numel() * tensor.element_size(),
                        *(shape if whole is None else whole), *padding, *shape, *padding, len(axes),
                        0) + rows.ljust(_AXES * _AXIS.size, b"\0")


def _serialize_tensor(tensor):
    """(header, address of the data, its bytes, what keeps it alive); ValueError."""
    if not isinstance(tensor, _torch().Tensor):
        raise ValueError("%r is no tensor" % type(tensor))
    owner = tensor.detach().cpu().contiguous()
    size = owner.numel() * owner.element_size()
    return _header_of(owner), owner.data_ptr() if size > 0 else 0, size, owner


def _read_header(memory):
    """(dtype, shape, where the data begin, their bytes); ValueError."""
    if len(memory) < _SIZE:
        raise ValueError("%d bytes are no tensor" % len(memory))
    fields = _HEADER.unpack_from(memory)
    magic, version, _, code, rank, _, _, offset, size = fields[:9]
    shape = fields[17:17 + rank] if 0 <= rank <= _RANKS else None  # of what is stored
    if magic != _MAGIC or version != _VERSION or shape is None or \
            not 0 <= code < len(_DTYPES) or offset + size > len(memory):
        raise ValueError("the bytes are no tensor")
    return getattr(_torch(), _DTYPES[code]), list(shape), offset, size


def _read_axes(memory):
    """What tells which part of a tensor this memory holds: (shape of the whole, rows as _header_of
    takes them); None: it holds the whole. For memory that _read_header has let pass."""
    fields = _HEADER.unpack_from(memory)
    rank, kind, count = fields[4], fields[5], fields[25]
    if kind != _SHARD or not 0 < count <= _AXES:
        return None
    rows = []
    for index in range(count):
        kind, _, own, size, split_dim, number, _ = _AXIS.unpack_from(
            memory, _HEADER.size + index * _AXIS.size)
        rows.append((kind, own, size, split_dim, number))
    return list(fields[9:9 + rank]), rows


def _deserialize_tensor(memory):
    """The tensor over this memory; ValueError."""
    torch = _torch()
    view = memoryview(memory).cast("B")
    dtype, shape, offset, size = _read_header(view)
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    if view.readonly:
        view = bytearray(view)
    flat = torch.frombuffer(view, dtype=torch.uint8, offset=offset, count=size)
    return flat.view(dtype).reshape(shape)


def _tensor_or_none(memory):
    try:
        return None if memory is None else _deserialize_tensor(memory)
    except (ValueError, RuntimeError):
        return None


def _memory_at(address, size):
    return (ctypes.c_uint8 * size).from_address(address)


def _shards(tensor, count, dim):
    """Equal parts of a tensor; None: it has none."""
    if count < 1 or not -tensor.dim() <= dim < tensor.dim() or tensor.shape[dim] % count != 0:
        return None
    size = tensor.shape[dim] // count
    return [tensor.narrow(dim, rank * size, size).contiguous() for rank in range(count)]


def _under(key, suffix):
    return key + suffix if isinstance(key, str) else bytes(key) + suffix.encode()


def _tp_key(key, rank, size):
    return key if size <= 1 else _under(key, "_tp_%d" % rank)


def _fits_replicas(config):
    segments = config.preferred_segments
    return not segments or len(segments) == config.replica_num


class Tensors:
    """The calls of tensors; a number is 0 or a negative code."""

    __slots__ = ()

    # ---- put ----

    def _put_tensors(self, keys, tensors, config=None, replace=False, headers=None):
        keys, tensors = list(keys), list(tensors)
        if len(keys) != len(tensors):
            return [INVALID] * len(keys)
        codes = [INVALID] * len(keys)
        good, pointers, sizes, kept = [], [], [], []
        for index, tensor in enumerate(tensors):
            try:
                header, pointer, size, owner = _serialize_tensor(tensor)
            except ValueError:
                continue
            head = ctypes.create_string_buffer(headers[index] if headers else header, _SIZE)
            good.append(index)
            kept += [head, owner]
            pointers.append([ctypes.addressof(head), pointer])
            sizes.append([_SIZE, size])
        put = self._batch_upsert_from_multi_buffers if replace \
            else self.batch_put_from_multi_buffers
        for index, code in zip(good, put([keys[index] for index in good], pointers, sizes,
                                         config)):
            codes[index] = code
        del kept
        return codes

    def put_tensor(self, key, tensor):
        return self._put_tensors([key], [tensor])[0]

    def batch_put_tensor(self, keys, tensors_list):
        return self._put_tensors(keys, tensors_list)

    def pub_tensor(self, key, tensor, config):
        return self.batch_pub_tensor([key], [tensor], config)[0]

    def batch_pub_tensor(self, keys, tensors_list, config):
        if not _fits_replicas(config):
            return [INVALID] * len(keys)
        return self._put_tensors(keys, tensors_list, config)

    def upsert_tensor(self, key, tensor):
        return self._put_tensors([key], [tensor], None, True)[0]

    def batch_upsert_tensor(self, keys, tensors_list):
        return self._put_tensors(keys, tensors_list, None, True)

    def upsert_pub_tensor(self, key, tensor, config):
        return self.batch_upsert_pub_tensor([key], [tensor], config)[0]

    def batch_upsert_pub_tensor(self, keys, tensors_list, config):
        if not _fits_replicas(config):
            return [INVALID] * len(keys)
        return self._put_tensors(keys, tensors_list, config, True)

    # ---- from memory that holds header and data ----

    def put_tensor_from(self, key, buffer_ptr, size):
        return self.batch_put_tensor_from([key], [buffer_ptr], [size])[0]

    def batch_put_tensor_from(self, keys, buffer_ptrs, sizes):
        return self._tensors_from(self.batch_put_from, keys, buffer_ptrs, sizes)

    def upsert_tensor_from(self, key, buffer_ptr, size):
        return self.batch_upsert_tensor_from([key], [buffer_ptr], [size])[0]

    def batch_upsert_tensor_from(self, keys, buffer_ptrs, sizes):
        return self._tensors_from(self.batch_upsert_from, keys, buffer_ptrs, sizes)

    @staticmethod
    def _tensors_from(put, keys, buffer_ptrs, sizes):
        keys, buffer_ptrs, sizes = list(keys), list(buffer_ptrs), list(sizes)
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID] * len(keys)
        for pointer, size in zip(buffer_ptrs, sizes):
            try:
                _read_header(memoryview(_memory_at(pointer, size)).cast("B") if pointer else b"")
            except ValueError:
                return [INVALID] * len(keys)
        return put(keys, buffer_ptrs, sizes)

    # ---- get ----

    def get_tensor(self, key):
        return _tensor_or_none(self.get_buffer(key))

    def batch_get_tensor(self, keys):
        return [_tensor_or_none(memory) for memory in self.batch_get_buffer(keys)]

    def get_tensor_into(self, key, buffer_ptr, size):
        found = self.batch_get_tensor_into([key], [buffer_ptr], [size])[0]
        return None if isinstance(found, int) else found

    def batch_get_tensor_into(self, keys, buffer_ptrs, sizes):
        keys, buffer_ptrs = list(keys), list(buffer_ptrs)
        found = self.batch_get_into(keys, buffer_ptrs, sizes)
        if len(buffer_ptrs) != len(keys) or len(sizes) != len(keys):
            return found
        return [_tensor_or_none(_memory_at(pointer, size)) if size > 0 else None
                for pointer, size in zip(buffer_ptrs, found)]

    # ---- tensor parallelism ----

    def _put_shards(self, keys, tensors, config, size, dim):
        keys, tensors = list(keys), list(tensors)
        if len(keys) != len(tensors) or (config is not None and not _fits_replicas(config)):
            return [INVALID] * len(keys)
        if size <= 1:
            return self._put_tensors(keys, tensors, config)
        return [self._put_all_shards(key, tensor, config, size, dim)
                for key, tensor in zip(keys, tensors)]

    def _put_all_shards(self, key, tensor, config, size, dim):
        """0, or the code of the first shard that was not stored."""
        try:
            parts = _shards(tensor, size, dim)
            headers = [_header_of(part, tensor.shape, [(_TP, rank, size, dim % tensor.dim(), -1)])
                       for rank, part in enumerate(parts or ())]
        except (ValueError, AttributeError):  # of what is no tensor
            parts = None
        if parts is None:
            return INVALID
        done = self._put_tensors([_tp_key(key, rank, size) for rank in range(size)], parts, config,
                                 False, headers)
        return next((code for code in done if code != 0), 0)

    def put_tensor_with_tp(self, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
        return self._put_shards([key], [tensor], None, tp_size, split_dim)[0]

    def batch_put_tensor_with_tp(self, base_keys, tensors_list, tp_rank=0, tp_size=1,
                                 split_dim=0):
        return self._put_shards(base_keys, tensors_list, None, tp_size, split_dim)

    def pub_tensor_with_tp(self, key, tensor, config, tp_rank=0, tp_size=1, split_dim=0):
        return self._put_shards([key], [tensor], config, tp_size, split_dim)[0]

    def batch_pub_tensor_with_tp(self, base_keys, tensors_list, config, tp_rank=0, tp_size=1,
                                 split_dim=0):
        return self._put_shards(base_keys, tensors_list, config, tp_size, split_dim)

    def get_tensor_with_tp(self, key, tp_rank=0, tp_size=1, split_dim=0):
        return self.get_tensor(_tp_key(key, tp_rank, tp_size))

    def batch_get_tensor_with_tp(self, base_keys, tp_rank=0, tp_size=1):
        return self.batch_get_tensor([_tp_key(key, tp_rank, tp_size) for key in base_keys])

    def get_tensor_with_tp_into(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        return self.get_tensor_into(_tp_key(key, tp_rank, tp_size), buffer_ptr, size)

    def batch_get_tensor_with_tp_into(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1):
        return self.batch_get_tensor_into([_tp_key(key, tp_rank, tp_size) for key in base_keys],
                                          buffer_ptrs, sizes)

    def put_tensor_with_tp_from(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        return self.put_tensor_from(_tp_key(key, tp_rank, tp_size), buffer_ptr, size)

    def batch_put_tensor_with_tp_from(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1):
        return self.batch_put_tensor_from([_tp_key(key, tp_rank, tp_size) for key in base_keys],
                                          buffer_ptrs, sizes)
