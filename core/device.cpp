#include "core/device.h"

#include <charconv>

#include "core/cuda/backend.h"
#include "core/error.h"

namespace moh {

Device parse_device(std::string_view text) {
  if (text == "cpu") return kCpu;
  if (text == "cuda") return {Device::Type::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::string_view digits = text.substr(kPrefix.size());
    int index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) {
      return {Device::Type::kCuda, index};
    }
  }
  throw ValueError(error_message("device", "", "cpu, cuda or cuda:N", '"' + std::string(text) + '"'));
}

std::string device_name(Device device) {
  return device.type == Device::Type::kCpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

void open_device(Device device) {
  if (device.type == Device::Type::kCuda) cuda::open_device(device.index);
}

MemoryStats memory_stats(Device device) {
  return device == kCpu ? CpuAllocator::instance().stats() : cuda::memory_stats();
}

void reset_memory_peaks(Device device) {
  device == kCpu ? CpuAllocator::instance().reset_peaks() : cuda::reset_memory_peaks();
}

}  // namespace moh
