#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "core/tensor.h"

/// Arrays of Python as tensors and back. In goes what has `__dlpack__` or is a buffer, such as NumPy's arrays
/// and PyTorch's tensors in main memory; out come NumPy's arrays. The interpreter's lock is held.
namespace moh::python {

/// Token ids as [B, T]: of an array [T] or [B, T] of int64 or int32, whose memory the tensor then is if it is
/// contiguous, or of a list of numbers, or of lists of as many. Throws ValueError, from `where`.
Tensor ids_of(std::string_view where, nanobind::handle ids);

/// Pictures as the models take them, [B, H, W, 3], of an array [B, 3, H, W] of float32: its memory, if the
/// channels of a pixel follow each other there, else a copy. Throws ValueError, from `where`.
Tensor pictures_of(std::string_view where, nanobind::handle pictures);

/// The tensor as an array of NumPy. It is the tensor's memory, or a copy in main memory of one on a GPU.
nanobind::object array_of(const Tensor& tensor);
/// Likewise of uint8 that is 0 or 1, as booleans.
nanobind::object flags_of(const Tensor& tensor);

}  // namespace moh::python
