#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/allocator.h"
#include "core/device.h"

namespace moh {

class DryMemory;

/// A block of memory on one device, shared by the tensors that view it and freed with the last of them.
class Storage {
 public:
  /// A block from the device's allocator, contents undefined, counted under `purpose`. In a dry run the block
  /// is counted only (core/dry_run.h).
  static std::shared_ptr<Storage> allocate(std::size_t bytes, Device device, MemoryPurpose purpose);
  /// Memory that this class does not own (a mapped file), kept alive by `owner`. It is never written to.
  static std::shared_ptr<Storage> borrow(const void* data, std::size_t bytes,
                                         std::shared_ptr<const void> owner);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() {
    if (remake_) [[unlikely]]
      restore();
    return data_;
  }
  /// Frees the block until data() is called the next time, by one thread: then `remake` is called once, and
  /// its block becomes that of this storage. It returns storage of this size and device that nothing else
  /// uses.
  void release_until_read(std::function<std::shared_ptr<Storage>()> remake);
  /// The block as it is: null while it is released.
  const std::byte* block() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_borrowed() const { return owner_ != nullptr; }
  /// Counts the block under another purpose from now on (a gradient computed as an activation that a
  /// parameter then keeps).
  void set_purpose(MemoryPurpose purpose);

 private:
  Storage() = default;
  void free_block() noexcept;
  void restore();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  MemoryPurpose purpose_ = MemoryPurpose::kActivation;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<DryMemory> dry_;                    // where a dry run counts the block; null: it is real
  std::function<std::shared_ptr<Storage>()> remake_;  // the block is free until it is called
};

}  // namespace moh
