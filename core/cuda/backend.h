#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/allocator.h"
#include "core/dtype.h"

// The functions of CUDA that the rest of core needs. A build without a toolkit links core/cuda/absent.cpp
// instead, where open_device() throws, so that nothing else is ever called. One process computes on one GPU:
// data parallelism starts a process for each.

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
/// Name of the open device as the driver reports it: "NVIDIA H200".
std::string product_name();
/// Size of its L2 cache.
std::size_t cache_bytes();

/// A block of device memory, in stream order, aligned to 256 bytes. If there is none, waits for the device,
/// trims the pool and tries once more. Throws MemoryError naming what is in use and what is held.
void* allocate(std::size_t bytes, MemoryPurpose purpose);
void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept;
void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept;
/// Statistics of device memory; system_allocations counts how often the pool grew.
MemoryStats memory_stats();
void reset_memory_peaks();

// Copies in stream order. Host memory may be changed or freed once the call returns.
void copy_to_device(void* to, const void* from, std::size_t bytes);
/// Blocks until the copy has finished.
void copy_to_host(void* to, const void* from, std::size_t bytes);
/// An asynchronous copy to the host.
class HostTransfer {
 public:
  virtual ~HostTransfer() = default;
  /// Blocks until the copy has finished and writes the bytes to `to`. Throws as synchronize() does.
  virtual void finish(void* to) = 0;
};
/// Enqueues a copy to page-locked memory and returns without waiting for it.
std::unique_ptr<HostTransfer> begin_copy_to_host(const void* from, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void set_zero(void* to, std::size_t bytes);

/// Blocks until all work enqueued so far has finished. Throws DeviceError when a kernel failed, ValueError
/// when one found an index out of range.
void synchronize();

/// CUDA events of the stream. An event may be recorded repeatedly; it stands for its last recording.
void* create_event();
void destroy_event(void* event) noexcept;
void record_event(void* event);
/// Seconds of device time between two events, to a microsecond; blocks until the device has reached `to`.
double seconds_between(void* from, void* to);

// The kernels that Tensor's members of these names launch (core/tensor.h), over `count` elements.
void fill(void* to, DType dtype, std::int64_t count, double value);
void convert(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count);
void add(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count);
void scale(void* to, DType dtype, std::int64_t count, double factor);
struct RowPart {
  const void* from;
  DType dtype;
  std::int64_t count;
};
/// Row number *number of the rows at `rows`, of `width` elements, becomes the parts (core/copy_to_row.h).
void copy_to_row(double* rows, const std::int64_t* number, std::int64_t width,
                 std::span<const RowPart> parts);
/// Blocks until the result is known.
bool all_finite(const void* from, DType dtype, std::int64_t count);

}  // namespace moh::cuda
