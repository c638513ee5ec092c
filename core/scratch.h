#pragma once

#include <cstddef>

namespace moh {

/// Memory for the inside of a kernel, from the CPU allocator (purpose: workspace), given back at the end of
/// the scope.
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
