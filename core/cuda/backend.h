#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/allocator.h"
#include "core/dtype.h"

// What the rest of core asks of CUDA. A build without a toolkit has core/cuda/absent.cpp behind it, which
// refuses to open a device and so is never asked for more. One process computes on one GPU: data parallelism
// starts a process for each.

namespace moh::cuda {

/// Makes GPU `index` the one that this process computes on; a second call must name the same. Throws
/// DeviceError when this build has no CUDA, when there is no such GPU, or when it is older than the kernels
/// (compute capability 8.0).
void open_device(int index);

/// Name, compute capability, multiprocessors, memory, driver and toolkit versions of the open device, for
/// logs.
std::string describe_device();
/// Compute capability of the open device: 90 for 9.0.
int capability();
/// As the driver calls the open device: "NVIDIA H200".
std::string product_name();
/// Size of its level 2 cache.
std::size_t cache_bytes();

/// A block of device memory, in stream order, aligned to 256 bytes. Throws MemoryError with what is in use.
void* allocate(std::size_t bytes, MemoryPurpose purpose);
void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept;
void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept;
/// Of the device's memory; system_allocations counts how often the pool grew.
MemoryStats memory_stats();
void reset_memory_peaks();

// Copies in stream order. Host memory may be changed or freed once the call returns.
void copy_to_device(void* to, const void* from, std::size_t bytes);
/// Waits for the device.
void copy_to_host(void* to, const void* from, std::size_t bytes);
/// A copy to the host that is under way.
class HostTransfer {
 public:
  virtual ~HostTransfer() = default;
  /// Waits until it is there and puts the bytes where they are wanted. Throws as synchronize() does.
  virtual void finish(void* to) = 0;
};
/// Asks for a copy, to page-locked memory at first, and does not wait for it.
std::unique_ptr<HostTransfer> begin_copy_to_host(const void* from, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void set_zero(void* to, std::size_t bytes);

/// Waits until the device has done all that it was asked to. Throws DeviceError when a kernel failed,
/// ValueError when one found an index out of range.
void synchronize();

/// Points in the stream's time. An event is recorded again and again, and stands for the last time.
void* create_event();
void destroy_event(void* event) noexcept;
void record_event(void* event);
/// Seconds of device time, to a microsecond; waits until the device has reached the later one, `to`.
double seconds_between(void* from, void* to);

// Elementwise kernels behind Tensor's members; see there. `count` elements.
void fill(void* to, DType dtype, std::int64_t count, double value);
void convert(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count);
void add(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count);
void scale(void* to, DType dtype, std::int64_t count, double factor);
/// Waits for the device.
bool all_finite(const void* from, DType dtype, std::int64_t count);

}  // namespace moh::cuda
