"""Memory of objects that have no buffer protocol."""


def as_buffer(value):
    """An object with the buffer protocol over the memory of a tensor on the CPU; of one on a GPU
    its (address, size).

    PyTorch's tensors are known by what they can do, so that this needs no import of it.
    """
    if not all(hasattr(value, name) for name in ("is_contiguous", "numpy", "device")):
        raise TypeError("a buffer (bytes, array, tensor) is wanted, not %r" % type(value).__name__)
    if value.device.type not in ("cpu", "cuda"):
        raise TypeError("a tensor on %s: copy it to the CPU first" % value.device)
    if not value.is_contiguous():
        raise ValueError("a tensor whose memory is not in one piece: use contiguous()")
    if value.device.type == "cuda":
        return value.data_ptr(), value.numel() * value.element_size()
    torch = __import__("torch")
    # As bytes: NumPy has no name for some types of elements (bfloat16).
    return value.detach().reshape(-1).view(torch.uint8).numpy()
