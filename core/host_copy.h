#pragma once

#include <memory>

#include "core/cuda/backend.h"
#include "core/tensor.h"

namespace moh {

/// What a tensor holds, on its way to the host: a GPU copies when it gets there, and nobody waits before
/// get().
class HostCopy {
 public:
  /// Takes what `tensor` holds once all that was asked of its device before is done.
  explicit HostCopy(const Tensor& tensor);

  /// The copy, on the CPU. Waits for a GPU that is not there yet. Throws as cuda::synchronize() does.
  const Tensor& get();

 private:
  Tensor copy_;
  std::unique_ptr<cuda::HostTransfer> transfer_;  // null once the copy is here
};

}  // namespace moh
