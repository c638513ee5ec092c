#pragma once

#include <cstddef>

namespace moh {

/// Workspace of a CPU kernel, from CpuAllocator (purpose: workspace), freed at the end of the scope.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// The block as an array of T; 64-byte aligned, contents undefined.
  template <class T>
  [[gnu::always_inline]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  std::size_t bytes_;
};

}  // namespace moh
