#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace moh::sim {

/// The memory of the simulated device. Host code that touches it faults, as it would with a device: it is
/// accessible while an Access lives, that is inside kernels and copies. New blocks hold NaN.
class DeviceMemory {
 public:
  static DeviceMemory& instance();

  /// Where a block comes from: CUDA's pool, which keeps what comes back until it is trimmed, or the device.
  enum class Source { kPool, kDevice };

  /// A block, which is to be opened in stream order; null when there is no room.
  void* allocate(std::size_t bytes, Source source);
  /// Takes a block back, which is to be closed in stream order; returns its bytes.
  std::size_t free(void* block);
  /// The block holds NaN from here on, or is out of bounds.
  static void open_block(void* block, std::size_t bytes);
  static void close_block(void* block, std::size_t bytes);
  /// Page-locked memory of the host, which kernels may touch as well.
  void* allocate_pinned(std::size_t bytes);
  bool is_pinned(const void* address) const;
  std::size_t pinned_bytes() const;
  /// Whether an address lies within a block, or within page-locked memory.
  bool is_reachable(const void* address) const;
  /// Throws KernelFault unless [address, address + bytes) lies within one block.
  void require(const void* address, std::size_t bytes, const char* what) const;

  /// The bytes of the pool: of its blocks, and of those that came back to it.
  std::size_t pool_bytes() const { return pool_held_; }
  void trim_pool() { pool_held_ = std::min(pool_held_, pool_used_ + closing_); }
  /// Memory that was freed in stream order stays the pool's until the stream has got there.
  void begin_close(std::size_t bytes) { closing_ += block_size(bytes); }
  void end_close(std::size_t bytes) { closing_ -= block_size(bytes); }
  /// Bytes that neither the pool nor a block of the device has.
  std::size_t free_bytes() const { return limit_ - pool_held_ - taken_from_device_; }
  std::int64_t bytes_in_use() const;
  /// The device has this much memory from here on, at most kBytes.
  void set_limit(std::size_t bytes) { limit_ = bytes; }

  static constexpr std::size_t kBytes = std::size_t{4} << 30;

  /// Opens the memory for its lifetime. One at a time, and only on one thread.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

 private:
  DeviceMemory();
  void protect(int protection) const;
  static std::size_t block_size(std::size_t bytes);
  bool has_room(std::size_t size, Source source) const;
  void count(std::byte* block, std::size_t size, Source source);

  static constexpr std::size_t kGap =
      256;  // between blocks, never accessible to a kernel under AddressSanitizer
  std::byte* base_;
  std::size_t end_ = 0;  // of what was ever handed out
  std::size_t limit_ = kBytes, pool_held_ = 0, pool_used_ = 0, closing_ = 0, taken_from_device_ = 0;
  std::map<std::byte*, std::size_t> blocks_, pinned_;
  std::set<std::byte*> from_device_;  // those of blocks_ that are not the pool's
  std::multimap<std::size_t, std::byte*> free_;
  mutable std::recursive_mutex mutex_;
};

/// How often each kernel was launched, by name.
class LaunchLog {
 public:
  static LaunchLog& instance();
  void add(const char* name) { ++counts_[name]; }
  const std::map<std::string, std::int64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace moh::sim
