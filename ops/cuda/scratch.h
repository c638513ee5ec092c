#pragma once

#include <cstddef>

#include "core/cuda/backend.h"

namespace moh {

/// Workspace of an op in device memory, allocated and freed in stream order: for kernels launched
/// in the scope.
class DeviceScratch {
 public:
  explicit DeviceScratch(std::size_t bytes)
      : data_(cuda::allocate(bytes, MemoryPurpose::kWorkspace)), bytes_(bytes) {}
  ~DeviceScratch() { cuda::release(data_, bytes_, MemoryPurpose::kWorkspace); }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  /// The block as an array of T; 256-byte aligned, contents undefined.
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  std::size_t bytes_;
};

}  // namespace moh
