#pragma once

#include <cuda_runtime_api.h>

#include "core/cuda/backend.h"

// For files that are compiled with the CUDA toolkit only.

namespace moh::cuda {

/// Throws DeviceError, or MemoryError for exhausted memory, that names the call and CUDA's reason.
void check(cudaError_t status, const char* call);

/// The stream of the calling thread's queue (core/cuda/queue.h): the compute queue, but in a QueueScope.
cudaStream_t stream();

/// Limits of the open device that launch shapes and kernel variants are chosen by.
struct DeviceLimits {
  int capability = 0;  ///< 90 for compute capability 9.0
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  ///< maximum of a block, after opting in (allow_shared_memory)
};
const DeviceLimits& limits();
/// The pool that cudaMallocAsync() allocates from.
cudaMemPool_t memory_pool();

/// Whether the stream is being captured by a Graph.
bool capturing();
/// Throws InternalError during a capture, where `what` ("wait for the device") would fail or would not be
/// part of the graph.
void require_no_capture(const char* what);

/// Throws DeviceError when the grid exceeds what a GPU can launch: its sizes would overflow CUDA's 32-bit
/// types without notice.
void check_grid(const char* name, std::int64_t blocks_x, std::int64_t blocks_y);
/// Throws DeviceError when the launch of kernel `name` failed. Kernels run asynchronously, so that a failure
/// of the kernel itself is reported by a later call, except with MOH_CUDA_SYNC=1 in the environment.
void check_launch(const char* name);
/// Opts the kernel in to `bytes` of dynamic shared memory, above the default limit of 48 KiB.
void allow_shared_memory(const void* kernel, std::size_t bytes);

}  // namespace moh::cuda

#define MOH_CUDA_CALL(call) ::moh::cuda::check((call), #call)
