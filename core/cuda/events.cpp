#include "core/cuda/device.h"
#include "core/cuda/queue.h"

namespace moh::cuda {

void* create_event() {
  use_device_in_this_thread();
  cudaEvent_t event = nullptr;
  MOH_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

void destroy_event(void* event) noexcept {
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void record_event(void* event) {
  MOH_CUDA_CALL(cudaEventRecord(static_cast<cudaEvent_t>(event), stream()));
}

void record_event(void* event, Queue queue) {
  MOH_CUDA_CALL(cudaEventRecord(static_cast<cudaEvent_t>(event), stream(queue)));
}

void wait_for(Queue waiter, void* event) {
  MOH_CUDA_CALL(cudaStreamWaitEvent(stream(waiter), static_cast<cudaEvent_t>(event), 0));
}

bool reached(void* event) {
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
  cudaGetLastError();  // not being ready is no failure
  return status == cudaSuccess;
}

double seconds_between(void* from, void* to) {
  float milliseconds = 0;
  MOH_CUDA_CALL(cudaEventSynchronize(static_cast<cudaEvent_t>(to)));
  MOH_CUDA_CALL(
      cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace moh::cuda
