#pragma once

#include <cstdint>

#include "ops/device/kernel.h"

namespace moh::device {

inline void copy_async_16(void* shared, const void* from, bool real,
                          const std::source_location& where = std::source_location::current()) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    sim::fault("an asynchronous copy between addresses that are no multiples of 16", where);
  const sim::AsyncCopy copy{shared, from, real};
  if (sim::freedom().late_copies) {
    sim::this_thread().copies.add(copy);
  } else {
    copy.make();
  }
}

inline void commit_copies() {
  sim::this_thread().copies.end_group();
}

template <int kLeft>
void wait_copies() {
  sim::this_thread().copies.make_all_but(kLeft);
}

}  // namespace moh::device
