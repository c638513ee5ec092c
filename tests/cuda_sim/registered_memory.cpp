#include "tests/cuda_sim/registered_memory.h"

#include <algorithm>

#include "tests/cuda_sim/grid.h"

namespace moh::sim {

RegisteredMemory& RegisteredMemory::instance() {
  static auto* memory = new RegisteredMemory;
  return *memory;
}

void RegisteredMemory::add(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(static_cast<const std::byte*>(address), bytes);
}

void RegisteredMemory::remove(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto [first, end] = ranges_.equal_range(static_cast<const std::byte*>(address));
  const auto found = std::find_if(first, end, [bytes](const auto& range) { return range.second == bytes; });
  if (found == end) throw KernelFault("the end of a registration that there is not");
  ranges_.erase(found);
}

bool RegisteredMemory::is_in(const void* block, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* const begin = static_cast<const std::byte*>(block);
  const auto first = ranges_.lower_bound(begin);
  return first != ranges_.end() && first->first < begin + bytes;
}

}  // namespace moh::sim
