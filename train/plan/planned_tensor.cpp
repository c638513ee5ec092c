#include "train/plan/planned_tensor.h"

#include <unistd.h>

#include "core/block_size.h"

namespace moh {

void MemoryLedger::count(MemoryPurpose purpose, std::int64_t bytes) {
  const std::int64_t peak = stats_.total.peak_bytes;
  stats_.count(purpose, bytes);
  if (stats_.total.peak_bytes == peak) return;
  for (std::size_t i = 0; i < at_peak_.size(); ++i) at_peak_[i] = stats_.by_purpose[i].current_bytes;
}

std::int64_t MemoryLedger::block_bytes(std::int64_t bytes) const {
  if (device_ != kCpu) return bytes;
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return static_cast<std::int64_t>(block_size(static_cast<std::size_t>(bytes), page));
}

PlannedTensor::Block::Block(MemoryLedger& of, std::int64_t size)
    : ledger(of), bytes(of.block_bytes(size)), purpose(current_memory_purpose()) {
  ledger.count(purpose, bytes);
}

PlannedTensor::Block::~Block() {
  ledger.count(purpose, -bytes);
}

PlannedTensor::PlannedTensor(MemoryLedger& ledger, std::int64_t numel, DType dtype)
    : block_(std::make_shared<Block>(ledger, numel * static_cast<std::int64_t>(dtype_size(dtype)))),
      numel_(numel),
      dtype_(dtype) {}

void PlannedTensor::set_purpose(MemoryPurpose purpose) const {
  block_->ledger.count(block_->purpose, -block_->bytes);
  block_->ledger.count(purpose, block_->bytes);
  block_->purpose = purpose;
}

PlannedTensor PlannedTensor::like() const {
  return {block_->ledger, numel_, dtype_};
}

PlannedTensor PlannedTensor::to(DType dtype) const {
  return dtype == dtype_ ? *this : PlannedTensor(block_->ledger, numel_, dtype);
}

}  // namespace moh
