#pragma once

#include <cstring>

#include "ops/device/kernel.h"

namespace moh::device {

inline void copy_async_16(void* shared, const void* from, bool real,
                          const std::source_location& where = std::source_location::current()) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    sim::fault("an asynchronous copy between addresses that are no multiples of 16", where);
  const auto copy = [shared, from, real] {
    if (real) {
      std::memcpy(shared, from, 16);
    } else {
      std::memset(shared, 0, 16);
    }
  };
  if (sim::freedom().late_copies) {
    sim::this_thread().open_copies.emplace_back(copy);
  } else {
    copy();
  }
}

inline void commit_copies() {
  sim::Thread& thread = sim::this_thread();
  thread.copy_groups.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}

template <int kLeft>
void wait_copies() {
  auto& groups = sim::this_thread().copy_groups;
  for (; groups.size() > kLeft; groups.pop_front()) {
    for (const auto& copy : groups.front()) copy();
  }
}

}  // namespace moh::device
