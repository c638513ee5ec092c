#include "core/cuda/nccl_group.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/cuda/device.h"
#include "core/cuda/nccl_library.h"
#include "core/cuda/queue.h"
#include "core/error.h"
#include "core/threads.h"

namespace moh::cuda {

namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kAlgorithms = "NCCL_ALGO";

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt64:
      return ncclInt64;
    default:
      fail_check(__FILE__, __LINE__, "a type that is reduced", dtype_name(dtype));
  }
}

ncclRedOp_t operation_of(ReduceOp op) {
  return op == ReduceOp::kSum ? ncclSum : ncclMax;
}

steady_clock::time_point after(double seconds) {
  return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(duration<double>(seconds));
}

/// Work on a thread of its own, which is left behind if it takes too long, as are errors of what is to end
/// anyway. It owns what it uses. start() and wait() may come from two threads.
class WorkInTime {
 public:
  WorkInTime() = default;
  ~WorkInTime() { wait(0); }
  WorkInTime(const WorkInTime&) = delete;
  WorkInTime& operator=(const WorkInTime&) = delete;

  /// Where the system refuses the thread, the work is never done.
  void start(std::function<void()> work) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      thread_ = start_thread({"comm"}, [done = done_, work = std::move(work)] {
        try {
          work();
        } catch (const std::exception&) {
        }
        *done = true;
      });
    } catch (const ThreadError&) {
    }
  }

  /// At most `seconds`; false if that was not enough, now or before.
  bool wait(double seconds) noexcept {
    for (const auto end = after(seconds); !*done_ && steady_clock::now() < end;)
      std::this_thread::sleep_for(milliseconds(1));
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) return *done_;
    if (*done_) {
      thread_.join();
      return true;
    }
    leave_behind(std::move(thread_));
    return false;
  }

 private:
  std::mutex mutex_;
  std::thread thread_;
  std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
};

/// A graph keeps the addresses, and NCCL has them registered until it has let go of the graph.
void require_lasting(const void* memory, std::int64_t bytes) {
  if (capturing()) require_persistent(memory, static_cast<std::size_t>(bytes), "a captured collective");
}

std::int64_t bytes_of(std::int64_t count, DType dtype) {
  return count * static_cast<std::int64_t>(dtype_size(dtype));
}

}  // namespace

NcclId make_nccl_id() {
  const NcclLibrary& nccl = NcclLibrary::get();
  ncclUniqueId id;
  if (const ncclResult_t result = nccl.ncclGetUniqueId(&id); result != ncclSuccess)
    throw DeviceError(std::string("nccl: ncclGetUniqueId: ") + nccl.ncclGetErrorString(result));
  NcclId bytes;
  static_assert(sizeof id.internal == sizeof bytes);
  std::memcpy(bytes.data(), id.internal, sizeof bytes);
  return bytes;
}

std::string nccl_version() {
  int code = 0;
  NcclLibrary::get().ncclGetVersion(&code);
  return nccl_version_text(code);
}

std::string nccl_version_text(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code % 10000 / 100) + "." +
         std::to_string(code % 100);
}

void pin_nccl_algorithms() {
  ::setenv(kAlgorithms, "Ring,Tree", /*overwrite=*/0);
}

std::string nccl_algorithms() {
  const char* const names = std::getenv(kAlgorithms);
  return names == nullptr ? "" : names;
}

/// State that an abort uses while the thread of the collectives is inside NCCL: `calls` is held by each call,
/// which does not block, and `aborted` is looked at first, so that there are none after it.
///
/// ncclCommAbort tells the device to let go before it waits for anything, and then waits for the graphs, so
/// that nobody who has to destroy them may wait for it, nor for a lock that it holds. ncclCommRevoke, of NCCL
/// 2.28.9 and later, does not wait for graphs, but takes back what it has told the device when the work of
/// that moment has ended: replays that are enqueued behind it would wait for the other processes again, and
/// an abort after it frees the communicator under graphs that still refer to it. So it is not used.
struct NcclGroup::Impl {
  const NcclLibrary& nccl = NcclLibrary::get();
  ncclComm_t comm = nullptr;
  int rank = 0, size = 0;
  std::timed_mutex calls;
  std::atomic<bool> aborted = false;
  bool left = false;
  WorkInTime aborting;

  /// Throws NCCL's text for an error, after the function that has met it.
  [[noreturn]] void fail(const char* function, ncclResult_t result) const {
    const char* const last = nccl.ncclGetLastError(comm);
    std::string message = std::string("nccl: ") + function + ": " + nccl.ncclGetErrorString(result);
    if (last != nullptr && *last != '\0') message += std::string(": ") + last;
    throw DeviceError(message);
  }

  ncclResult_t state() const {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = nccl.ncclCommGetAsyncError(comm, &state);
    return result == ncclSuccess ? state : result;
  }

  /// Calls a function of NCCL, and waits until it has taken the call: an initialisation of parts, or a
  /// launch, may go on in a thread of its own, and is ended by an abort.
  void call(const char* function, const std::function<ncclResult_t()>& body) {
    ncclResult_t result = ncclInvalidUsage;
    for (bool first = true;; first = false) {
      {
        const std::lock_guard lock(calls);
        require_open(function);
        result = first ? body() : state();
      }
      if (result != ncclInProgress) break;
      std::this_thread::sleep_for(microseconds(20));
    }
    if (result != ncclSuccess) fail(function, result);
  }

  void require_open(const char* function) const {
    if (aborted)
      throw DeviceError(std::string("nccl: ") + function + ": the communicator of this process was aborted");
  }
};

NcclGroup::NcclGroup(const NcclId& id, int rank, int size) : impl_(std::make_shared<Impl>()) {
  use_device_in_this_thread();
  impl_->rank = rank;
  impl_->size = size;
  ncclUniqueId unique;
  std::memcpy(unique.internal, id.data(), sizeof unique.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = impl_->nccl.ncclCommInitRankConfig(&impl_->comm, size, unique, rank, &config);
  if (result != ncclSuccess && result != ncclInProgress) impl_->fail("ncclCommInitRankConfig", result);
}

NcclGroup::~NcclGroup() {
  constexpr double kSeconds = 10;
  if (impl_->left) return;
  abort();
  wait_for_abort(kSeconds);
}

bool NcclGroup::joined() {
  const std::lock_guard lock(impl_->calls);
  impl_->require_open("ncclCommInitRankConfig");
  const ncclResult_t state = impl_->state();
  if (state != ncclSuccess && state != ncclInProgress) impl_->fail("ncclCommInitRankConfig", state);
  return state == ncclSuccess;
}

void NcclGroup::all_reduce(void* values, std::int64_t count, DType dtype, ReduceOp op) {
  require_lasting(values, bytes_of(count, dtype));
  impl_->call("ncclAllReduce", [&] {
    return impl_->nccl.ncclAllReduce(values, values, static_cast<std::size_t>(count), type_of(dtype),
                                     operation_of(op), impl_->comm, stream(Queue::kCommunication));
  });
}

void NcclGroup::reduce_scatter(const void* rows, void* part, std::int64_t count, DType dtype, ReduceOp op) {
  require_lasting(rows, bytes_of(count, dtype) * impl_->size);
  require_lasting(part, bytes_of(count, dtype));
  impl_->call("ncclReduceScatter", [&] {
    return impl_->nccl.ncclReduceScatter(rows, part, static_cast<std::size_t>(count), type_of(dtype),
                                         operation_of(op), impl_->comm, stream(Queue::kCommunication));
  });
}

void NcclGroup::all_gather(const void* part, void* rows, std::int64_t bytes) {
  require_lasting(part, bytes);
  require_lasting(rows, bytes * impl_->size);
  impl_->call("ncclAllGather", [&] {
    return impl_->nccl.ncclAllGather(part, rows, static_cast<std::size_t>(bytes), ncclUint8, impl_->comm,
                                     stream(Queue::kCommunication));
  });
}

void NcclGroup::broadcast(void* values, std::int64_t bytes, int root) {
  require_lasting(values, bytes);
  impl_->call("ncclBroadcast", [&] {
    return impl_->nccl.ncclBroadcast(values, values, static_cast<std::size_t>(bytes), ncclUint8, root,
                                     impl_->comm, stream(Queue::kCommunication));
  });
}

void NcclGroup::exchange(const void* from, void* to, std::int64_t bytes) {
  require_lasting(from, bytes * impl_->size);
  require_lasting(to, bytes * impl_->size);
  const auto count = static_cast<std::size_t>(bytes);
  impl_->call("ncclGroupEnd", [&] {
    ncclResult_t result = impl_->nccl.ncclGroupStart();
    for (int r = 0; r < impl_->size && result == ncclSuccess; ++r) {
      const auto row = count * static_cast<std::size_t>(r);
      result = impl_->nccl.ncclSend(static_cast<const char*>(from) + row, count, ncclUint8, r, impl_->comm,
                                    stream(Queue::kCommunication));
      if (result != ncclSuccess) break;
      result = impl_->nccl.ncclRecv(static_cast<char*>(to) + row, count, ncclUint8, r, impl_->comm,
                                    stream(Queue::kCommunication));
    }
    const ncclResult_t ended = impl_->nccl.ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
  });
}

void NcclGroup::check() {
  const std::unique_lock lock(impl_->calls, std::try_to_lock);
  if (!lock) return;  // a call is under way, and meets the error itself
  impl_->require_open("ncclCommGetAsyncError");
  const ncclResult_t state = impl_->state();
  if (state != ncclSuccess && state != ncclInProgress) impl_->fail("ncclCommGetAsyncError", state);
}

void NcclGroup::abort() noexcept {
  if (impl_->comm == nullptr || impl_->left || impl_->aborted.exchange(true)) return;
  impl_->aborting.start([impl = impl_] {
    use_device_in_this_thread();
    // After the call under way, unless it does not return in spite of all: that is what the abort frees.
    static constexpr auto kForCalls = milliseconds(500);
    if (impl->calls.try_lock_for(kForCalls)) impl->calls.unlock();
    impl->nccl.ncclCommAbort(impl->comm);
  });
}

bool NcclGroup::wait_for_abort(double seconds) noexcept {
  return !impl_->aborted || impl_->aborting.wait(seconds);
}

bool NcclGroup::leave(double seconds) {
  const auto end = after(seconds);
  impl_->require_open("ncclCommFinalize");
  ncclResult_t state = ncclInProgress;
  {
    const std::lock_guard lock(impl_->calls);
    state = impl_->nccl.ncclCommFinalize(impl_->comm);
  }
  while (state == ncclInProgress && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
    const std::lock_guard lock(impl_->calls);
    state = impl_->state();
  }
  if (state != ncclSuccess) {
    abort();
    return false;
  }
  impl_->left = true;
  WorkInTime destroying;
  destroying.start([impl = impl_] {
    use_device_in_this_thread();
    impl->nccl.ncclCommDestroy(impl->comm);
  });
  return destroying.wait(seconds);
}

}  // namespace moh::cuda
