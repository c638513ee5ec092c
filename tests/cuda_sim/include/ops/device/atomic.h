#pragma once

#include "ops/device/kernel.h"

namespace moh::device {

inline int atomic_add(int* counter, int value) {
  const int before = *counter;
  *counter += value;
  sim::note_progress();
  return before;
}

inline void wait_for(const int* flag, int value,
                     const std::source_location& where = std::source_location::current()) {
  while (*static_cast<const volatile int*>(flag) != value) sim::spin(where);
}

inline void release(int* flag, int value) {
  *flag = value;
  sim::note_progress();
}

}  // namespace moh::device
