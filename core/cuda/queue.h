#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace moh::cuda {

/// The queues of the open device, each a stream: work of one runs in the order in which it was enqueued, that
/// of the other beside it. Kernels and collectives of the communication queue are scheduled before others.
///
/// Memory is the compute queue's: what allocate() returns may have been released before and still be in use
/// there, and what is released may be handed out again at once. So what the communication queue touches has
/// to be allocated before the wait_for() that forks it, and released after the one that joins it. What
/// outlives that, as buffers that captured work refers to, comes from a PersistentMemoryScope, and
/// require_persistent() checks it.
enum class Queue : std::uint8_t { kCompute, kCommunication };

/// The cudaStream_t of a queue, whatever QueueScope there is.
CUstream_st* stream(Queue queue);

/// Work that is enqueued to `waiter` from now on begins after all that was enqueued to `on` so far. Within a
/// capture (Graph), the communication queue takes part from its first wait for the compute queue on, and has
/// to be waited for before the end: fork and join.
void wait_for(Queue waiter, Queue on);

/// Kernels, copies on the device, and set_zero() of the calling thread go to `queue` for the lifetime of the
/// scope. Memory cannot be allocated in one of the communication queue, and nothing comes from the host or
/// goes there.
class QueueScope {
 public:
  explicit QueueScope(Queue queue);
  ~QueueScope();  // NOLINT: trivial only without CUDA
  QueueScope(const QueueScope&) = delete;
  QueueScope& operator=(const QueueScope&) = delete;

 private:
  Queue previous_ = Queue::kCompute;
};

/// Throws InternalError in a QueueScope of the communication queue, which does not `what` ("allocate").
void require_compute_queue(const char* what);

/// allocate() in the calling thread takes memory from the device (cudaMalloc), not from a pool or arena that
/// would hand it out again, for the lifetime of the scope. A library may register such memory. It is slow to
/// allocate, and to release, which waits for the device.
class PersistentMemoryScope {
 public:
  PersistentMemoryScope();
  ~PersistentMemoryScope();  // NOLINT: trivial only without CUDA
  PersistentMemoryScope(const PersistentMemoryScope&) = delete;
  PersistentMemoryScope& operator=(const PersistentMemoryScope&) = delete;

 private:
  bool previous_ = false;
};
/// Whether the bytes lie in a block of a PersistentMemoryScope.
bool is_persistent(const void* begin, std::size_t bytes);
/// Throws InternalError, naming `what`, unless is_persistent().
void require_persistent(const void* begin, std::size_t bytes, const char* what);

/// record_event() (core/cuda/backend.h) in a queue.
void record_event(void* event, Queue queue);
/// Work that is enqueued to `waiter` from now on begins after the event's last record.
void wait_for(Queue waiter, void* event);
/// Whether the device has reached the event's last record; does not wait.
bool reached(void* event);

/// Makes the open device the calling thread's, which CUDA keeps by thread. The functions of backend.h do so
/// themselves; for threads that call a library.
void use_device_in_this_thread();

}  // namespace moh::cuda
