#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/scratch.h"

namespace moh {

/// A copy on the device of a table that the host has made for a kernel.
template <class Entry>
class DeviceTable {
 public:
  DeviceTable(const Entry* entries, std::int64_t count)
      : scratch_(static_cast<std::size_t>(count) * sizeof(Entry)) {
    cuda::copy_to_device(scratch_.as<Entry>(), entries, static_cast<std::size_t>(count) * sizeof(Entry));
  }
  const Entry* data() const { return scratch_.as<Entry>(); }

 private:
  DeviceScratch scratch_;
};

}  // namespace moh
