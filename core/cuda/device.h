#pragma once

#include <cuda_runtime_api.h>

#include "core/cuda/backend.h"

// For files that are compiled with the CUDA toolkit only.

namespace moh::cuda {

/// Throws DeviceError, or MemoryError for exhausted memory, that names the call and CUDA's reason.
void check(cudaError_t status, const char* call);

/// The stream on which everything runs, in the order in which it was asked for. Opened by open_device().
cudaStream_t stream();

/// What kernels are shaped by.
struct DeviceLimits {
  int capability = 0;  ///< 90 for compute capability 9.0
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  ///< the most that a block may ask for
};
const DeviceLimits& limits();
/// Where cudaMallocAsync() takes from.
cudaMemPool_t memory_pool();

/// Whether a Graph records what the stream is asked for.
bool capturing();
/// Throws InternalError while one does: `what` ("wait for the device") would fail, or happen only once.
void require_no_capture(const char* what);

/// Throws DeviceError when the grid is larger than a GPU's: narrowed to CUDA's types, its sizes would be
/// others.
void check_grid(const char* name, std::int64_t blocks_x, std::int64_t blocks_y);
/// Throws DeviceError when the launch `name` was refused, or, with MOH_CUDA_SYNC=1 in the environment, when
/// the kernel failed: without it, a failure is reported by a later call.
void check_launch(const char* name);
/// Lets the kernel have more than the 48 KiB of shared memory that all kernels may use.
void allow_shared_memory(const void* kernel, std::size_t bytes);

}  // namespace moh::cuda

#define MOH_CUDA_CALL(call) ::moh::cuda::check((call), #call)
