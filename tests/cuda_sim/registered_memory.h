#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace moh::sim {

/// Memory of the device that a library knows by its address, and peers have mapped: blocks with some must not
/// be freed.
class RegisteredMemory {
 public:
  static RegisteredMemory& instance();

  /// Registers [address, address + bytes), which lies in one block, once more.
  void add(const void* address, std::size_t bytes);
  /// Takes that back once.
  void remove(const void* address, std::size_t bytes);
  /// Whether any lies in a block of `bytes`.
  bool is_in(const void* block, std::size_t bytes) const;

 private:
  std::multimap<const std::byte*, std::size_t> ranges_;
  mutable std::mutex mutex_;
};

}  // namespace moh::sim
