"""Tensors on a GPU: moved by the driver that the program has loaded; here one of the tests."""
import os
import subprocess
import sys

from conftest import BINARY

CODE = """
import ctypes, sys
import snowskin
fake = ctypes.CDLL(sys.argv[2])
fake.fake_alloc.restype = fake.fake_view.restype = ctypes.c_void_p
fake.fake_view.argtypes = [ctypes.c_void_p]
fake.fake_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int]


class Tensor:
    class device:
        type = "cuda"

    def __init__(self, content):
        self.size = len(content)
        self.at = fake.fake_alloc(self.size, 0)
        ctypes.memmove(fake.fake_view(self.at), content, self.size)

    numpy = None
    is_contiguous = lambda self: True
    data_ptr = lambda self: self.at
    numel = lambda self: self.size // 2
    element_size = lambda self: 2
    content = lambda self: ctypes.string_at(fake.fake_view(self.at), self.size)


value = bytes(range(256)) * 1000
source, target = Tensor(value), Tensor(bytes(len(value)))
with snowskin.Store(sys.argv[1]) as store:
    store.register(source)
    assert store.put("gpu", source) and store.get("gpu") == value
    assert store.get_into("gpu", target) == len(value) and target.content() == value
    assert store.put("mixed", [b"head", source]) and store.get("mixed") == b"head" + value
    part = Tensor(bytes(4))
    assert store.get_into_many(["mixed"], [[part, target]]) == [4 + len(value)]
    assert part.content() == b"head"
    store.unregister(source)
    fake.fake_refuse(1)
    try:
        store.put("refused", source)
    except snowskin.InvalidError:
        print("refused", store.exists("refused"))
"""


def test_tensors_on_a_gpu(dev):
    driver = os.path.join(os.path.dirname(BINARY), "fake", "libcuda.so.1")
    done = subprocess.run([sys.executable, "-c", CODE, dev.master, driver], capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused False\n", "")
