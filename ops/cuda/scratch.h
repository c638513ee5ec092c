#pragma once

#include <cstddef>

#include "core/cuda/backend.h"

namespace moh {

/// Device memory for the inside of an op, in stream order: the kernels launched within the scope may use it.
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
