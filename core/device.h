#pragma once

#include <string>
#include <string_view>

#include "core/allocator.h"

namespace moh {

/// The device that holds a tensor. A GPU has to be opened first (open_device).
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

/// Opens a device for tensors and kernels; the CPU is always open. One process computes on one GPU. Throws
/// DeviceError for a device that this build or machine does not have: there is no silent fallback.
void open_device(Device device);

/// Memory that tensors take on the device, in bytes.
MemoryStats memory_stats(Device device);
void reset_memory_peaks(Device device);

}  // namespace moh
