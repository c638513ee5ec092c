#pragma once

#include <string>
#include <string_view>

#include "core/allocator.h"

namespace moh {

/// Where a tensor lives. A GPU has to be opened before.
struct Device {
  enum class Type { kCpu, kCuda };
  Type type = Type::kCpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};

/// "cpu", or "cuda:1".
std::string device_name(Device device);

/// Reads "cpu", "cuda" or "cuda:N". Throws ValueError for another text.
Device parse_device(std::string_view text);

/// Makes ready a device that tensors are to live on; the CPU always is. One process computes on one GPU.
/// Throws DeviceError for a device that this build or machine does not have: nothing falls back to another
/// device in silence.
void open_device(Device device);

/// Memory of the device's tensors.
MemoryStats memory_stats(Device device);
void reset_memory_peaks(Device device);

}  // namespace moh
