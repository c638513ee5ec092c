#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// For kernels on a GPU that load pieces of 16 bytes, and libraries that do: the tensor itself, if it is on
/// the CPU or begins at a multiple of 16 bytes, as all do but slices; else a copy. The copy is made in stream
/// order, as any other.
inline Tensor aligned_on_gpu(const Tensor& tensor) {
  constexpr std::uintptr_t kPieceBytes = 16;
  if (tensor.device() == kCpu || reinterpret_cast<std::uintptr_t>(tensor.raw()) % kPieceBytes == 0)
    return tensor;
  return tensor.clone();
}

}  // namespace moh
