#pragma once

#include <string>
#include <string_view>

namespace moh {

/// Where a tensor lives. A GPU has to be opened before, which parse_device does.
struct Device {
  enum class Type { kCpu, kCuda };
  Type type = Type::kCpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};

/// "cpu", or "cuda:1".
std::string device_name(Device device);

/// Reads "cpu", "cuda" or "cuda:N", and opens the GPU for this process. Throws ValueError for another text,
/// and DeviceError for a device that this build or machine cannot compute on: nothing falls back to another
/// device in silence.
Device parse_device(std::string_view text);

}  // namespace moh
