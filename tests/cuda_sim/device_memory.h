#pragma once

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

  /// A block, which is to be opened in stream order; null when there is no room.
  void* allocate(std::size_t bytes);
  /// Takes a block back, which is to be closed in stream order; returns its bytes.
  std::size_t free(void* block);
  /// The block holds NaN from here on, or is out of bounds.
  static void open_block(void* block, std::size_t bytes);
  static void close_block(void* block, std::size_t bytes);
  /// Page-locked memory of the host, which kernels may touch as well.
  void* allocate_pinned(std::size_t bytes);
  bool is_pinned(const void* address) const;
  /// Whether an address lies within a block, or within page-locked memory.
  bool is_reachable(const void* address) const;
  /// Throws KernelFault unless [address, address + bytes) lies within one block.
  void require(const void* address, std::size_t bytes, const char* what) const;

  /// Bytes that were ever in use at once, which is what a pool would hold.
  std::size_t reserved_bytes() const { return end_; }
  std::int64_t bytes_in_use() const;

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

  static constexpr std::size_t kBytes = std::size_t{4} << 30;
  static constexpr std::size_t kGap =
      256;  // between blocks, never accessible to a kernel under AddressSanitizer
  std::byte* base_;
  std::size_t end_ = 0;  // of what was ever handed out
  std::map<std::byte*, std::size_t> blocks_, pinned_;
  std::multimap<std::size_t, std::byte*> free_;
  mutable std::recursive_mutex mutex_;
};

/// Names of the kernels that were launched, for the test that every kernel is covered.
class LaunchLog {
 public:
  static LaunchLog& instance();
  void add(const char* name) { names_.insert(name); }
  const std::set<std::string>& names() const { return names_; }

 private:
  std::set<std::string> names_;
};

}  // namespace moh::sim
