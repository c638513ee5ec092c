"""Writes files as torch.save does, without PyTorch."""

import io
import math
import pickle
import struct
import sys
import types
import unittest.mock
import zipfile
from collections import OrderedDict


class FloatStorage:
    """The name of torch's class of storages of float32."""


def rebuild_tensor(*_):
    """The name of torch's function that makes a tensor out of a part of a storage."""


FloatStorage.__module__ = "torch"
rebuild_tensor.__module__, rebuild_tensor.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
TORCH = types.SimpleNamespace(FloatStorage=FloatStorage)
TORCH_UTILS = types.SimpleNamespace(_rebuild_tensor_v2=rebuild_tensor)


class Storage:
    def __init__(self, values):
        self.bytes = struct.pack(f"<{len(values)}f", *values)
        self.size = len(values)


class Tensor:
    """A contiguous float32 tensor of these numbers."""

    def __init__(self, shape, values):
        self.shape, self.storage = tuple(shape), Storage(values)

    def __reduce__(self):
        stride = tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))
        return rebuild_tensor, (self.storage, 0, self.shape, stride, False, OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages = []

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.storages.append(obj)
        return "storage", FloatStorage, str(len(self.storages) - 1), "cpu", obj.size


def torch_save(value):
    """The bytes of a file that holds `value`, in which tensors are of the class above."""
    text = io.BytesIO()
    pickler = Pickler(text)
    with unittest.mock.patch.dict(sys.modules, {"torch": TORCH, "torch._utils": TORCH_UTILS}):
        pickler.dump(value)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        for number, storage in enumerate(pickler.storages):
            archive.writestr(f"archive/data/{number}", storage.bytes)
        archive.writestr("archive/version", "3\n")
    return data.getvalue()
