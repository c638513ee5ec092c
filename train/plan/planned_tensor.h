#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/allocator.h"
#include "core/device.h"
#include "core/dtype.h"

namespace moh {

/// Counts the bytes of tensors that do not exist, as the allocator of a device would count those that do.
class MemoryLedger {
 public:
  using ByPurpose = std::array<std::int64_t, kNumMemoryPurposes>;

  explicit MemoryLedger(Device device) : device_(device) {}

  Device device() const { return device_; }
  /// Adds `bytes`, negative ones too, to a purpose.
  void count(MemoryPurpose purpose, std::int64_t bytes);
  /// What the device's allocator would hand out for `bytes`.
  std::int64_t block_bytes(std::int64_t bytes) const;

  const MemoryStats& stats() const { return stats_; }
  void reset_peaks() { stats_.reset_peaks(); }
  /// What the bytes were for when their sum was largest.
  const ByPurpose& at_peak() const { return at_peak_; }

 private:
  Device device_;
  MemoryStats stats_;
  ByPurpose at_peak_{};
};

/// A tensor without contents: its block is in the ledger for as long as somebody holds a handle to it. Like a
/// real one's its purpose is that of the enclosing MemoryPurposeScope.
class PlannedTensor {
 public:
  PlannedTensor() = default;
  PlannedTensor(MemoryLedger& ledger, std::int64_t numel, DType dtype);

  bool defined() const { return block_ != nullptr; }
  std::int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  bool is_unique() const { return block_.use_count() == 1; }
  bool shares_storage_with(const PlannedTensor& other) const { return block_ == other.block_; }
  void set_purpose(MemoryPurpose purpose) const;

  /// Another of the same size; of `dtype`, or the same one where that is its dtype.
  PlannedTensor like() const;
  PlannedTensor to(DType dtype) const;

 private:
  struct Block {
    Block(MemoryLedger& of, std::int64_t size);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    MemoryLedger& ledger;
    std::int64_t bytes;
    MemoryPurpose purpose;
  };
  std::shared_ptr<Block> block_;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
};

}  // namespace moh
