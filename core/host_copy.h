#pragma once

#include <memory>

#include "core/cuda/backend.h"
#include "core/tensor.h"

namespace moh {

/// An asynchronous copy of a tensor to the host: enqueued in the stream of a GPU, and not waited for before
/// get().
class HostCopy {
 public:
  /// Copies the values that `tensor` has when all work enqueued so far on its device has finished.
  explicit HostCopy(const Tensor& tensor);

  /// The copy, on the CPU. Blocks until it has finished. Throws as cuda::synchronize() does.
  const Tensor& get();

 private:
  Tensor copy_;
  std::unique_ptr<cuda::HostTransfer> transfer_;  // null once the copy has finished
};

}  // namespace moh
