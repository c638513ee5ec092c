#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// A table that kernels read, in the memory of their device.
template <class Entry>
class KernelTable {
 public:
  KernelTable() = default;
  KernelTable(std::vector<Entry> entries, Device device)
      : entries_(std::move(entries)), size_(static_cast<std::int64_t>(entries_.size())) {
    if (device == kCpu) return;
    const Tensor bytes = empty({size_ * static_cast<std::int64_t>(sizeof(Entry))}, DType::kUInt8);
    std::ranges::copy(std::as_bytes(std::span(entries_)), static_cast<std::byte*>(bytes.raw()));
    on_device_ = bytes.to(device);
    entries_ = {};
  }

  const Entry* data() const {
    return on_device_.defined() ? static_cast<const Entry*>(on_device_.raw()) : entries_.data();
  }
  std::int64_t size() const { return size_; }

 private:
  std::vector<Entry> entries_;  // on the CPU
  Tensor on_device_;            // elsewhere
  std::int64_t size_ = 0;
};

}  // namespace moh
