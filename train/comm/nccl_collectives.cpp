#include "train/comm/nccl_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "core/cuda/collective_counts.h"
#include "core/cuda/fault.h"
#include "core/cuda/queue.h"
#include "core/cuda/sum_rows.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "train/comm/comm_error.h"

namespace moh {

namespace {

using cuda::Queue;

constexpr double kAbortSeconds = 5, kRollCallSeconds = 10, kLeaveSeconds = 30;

/// NCCL's versions do not understand each other. A process that has none fails here, and the others hear of
/// it.
void require_one_version(Communicator& processes) {
  if (processes.alone()) return;
  const std::vector<std::string> versions = processes.texts_of_all(cuda::nccl_version());
  const auto other =
      std::ranges::find_if(versions, [&](const std::string& version) { return version != versions[0]; });
  if (other == versions.end()) return;
  throw ConfigError(error_message("comm", "NCCL", versions[0] + ", as rank 0 has",
                                  *other + " on rank " + std::to_string(other - versions.begin())));
}

/// The id of process 0, in all.
cuda::NcclId shared_id(Communicator& processes) {
  require_one_version(processes);
  cuda::NcclId id{};
  if (processes.is_rank0()) id = cuda::make_nccl_id();
  const std::string text = processes.text_of_rank0({id.data(), id.size()});
  std::ranges::copy(text, id.begin());
  return id;
}

/// Whether values are sent rounded to bfloat16 and summed by our own kernel.
bool is_summed_here(const Tensor& values, ReduceOp op, DType wire) {
  MOH_CHECK(wire == values.dtype() ||
                (wire == DType::kBFloat16 && values.dtype() == DType::kFloat32 && op == ReduceOp::kSum),
            "values are sent as they are, or summands in float32 as bfloat16");
  return wire == DType::kBFloat16 && op == ReduceOp::kSum;
}

}  // namespace

NcclCollectives::NcclCollectives(Communicator& processes, Device device, double deadline)
    : processes_(processes),
      device_(device),
      group_(shared_id(processes), processes.rank(), processes.size()) {
  join(deadline);
  {
    const cuda::PersistentMemoryScope persistent;
    token_ = zeros({1}, DType::kFloat32, device);
  }
  static_cast<void>(cuda::collective_counts());  // their memory is there before a capture
  watchdog_ = std::make_unique<CollectiveWatchdog>(watched(), deadline);
  cuda::check_after_waits([this] { check(); });
  processes_.set_device(this);
}

NcclCollectives::~NcclCollectives() {
  processes_.set_device(nullptr);
  cuda::check_after_waits({});
  if (!left_) abort();  // before its memory is freed, which waits for the device
}

void NcclCollectives::join(double deadline) {
  const double began = steady_seconds();
  while (!group_.joined()) {
    const double waited = steady_seconds() - began;
    std::string problem = processes_.trouble();
    if (problem.empty() && deadline > 0 && waited > deadline)
      problem = "some have not after " + std::to_string(static_cast<int>(waited)) + " s";
    if (!problem.empty()) {
      group_.abort();
      throw CommError(
          error_message("comm", "NCCL " + cuda::nccl_version(),
                        "all " + std::to_string(processes_.size()) + " processes to join within comm.timeout",
                        problem, "NCCL_DEBUG=INFO in the environment makes NCCL say why"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

CollectiveWatchdog::Watched NcclCollectives::watched() {
  return {.counts = cuda::collective_counts,
          .check =
              [this] {
                cuda::use_device_in_this_thread();
                group_.check();
              },
          .trouble = [this] { return processes_.trouble(); },
          .abort = [this] { group_.abort(); },
          .end_process =
              [this] {
                std::fprintf(stderr, "rank %d: error: %s; the GPU does not come back\n", processes_.rank(),
                             watchdog_->acknowledge().c_str());
                processes_.abort(CommError::kExitCode);
              }};
}

std::string NcclCollectives::description() const {
  const std::string algorithms = cuda::nccl_algorithms();
  return "NCCL " + cuda::nccl_version() + (algorithms.empty() ? "" : ", algorithms " + algorithms);
}

/// After the watchdog has ended the collectives, and on the thread that calls them: what others wait for on
/// the host comes in the same order everywhere.
void NcclCollectives::check() {
  if (std::this_thread::get_id() != thread_) return;
  if (failure_) std::rethrow_exception(failure_);
  if (aborted_) throw CommError("comm: the communicator of this process was aborted");
  if (watchdog_ && watchdog_->has_failed()) fail();
}

void NcclCollectives::fail() {
  const std::string reason = watchdog_->acknowledge();
  try {
    throw CommError("comm: " + reason + roll_call());
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

/// The collectives that each process has called, begun and ended, as far as processes answer. Throws
/// PeerError if one has failed for another reason.
std::string NcclCollectives::roll_call() {
  if (processes_.alone()) return {};
  const cuda::CollectiveCounts counts = cuda::collective_counts();
  processes_.set_deadline(kRollCallSeconds);
  std::vector<std::string> answers;
  try {
    answers = processes_.texts_of_all(std::to_string(counts.begun) + " begun and " +
                                      std::to_string(counts.ended) + " ended on the GPU, " +
                                      std::to_string(calls()) + " called, the last an " + last_call());
  } catch (const PeerError&) {
    throw;
  } catch (const CommError& error) {
    return std::string(" (") + error.what() + ")";
  }
  // Among many processes, those that differ from this one tell more.
  constexpr int kMost = 8;
  std::string text;
  int told = 0;
  for (int r = 0; r < processes_.size() && told < kMost; ++r) {
    const auto& answer = answers[static_cast<std::size_t>(r)];
    if (processes_.size() > kMost && answer == answers[static_cast<std::size_t>(processes_.rank())]) continue;
    text += "; rank " + std::to_string(r) + ": " + answer;
    ++told;
  }
  return text;
}

void NcclCollectives::run(FunctionRef<void()> collective) {
  cuda::count_begin_of_collective();
  try {
    collective();
  } catch (const DeviceError& error) {
    check();  // it may be the watchdog's abort that ended the call
    throw CommError(std::string("comm: ") + error.what());
  }
  cuda::count_end_of_collective();
}

/// Every process sends each other one its row, of `width` elements, in bfloat16, and adds up those that it
/// gets: as many bytes as NCCL's reduce-scatter, which would round after each addition. The sums are row
/// rank() of sent_.
Tensor NcclCollectives::exchange_and_sum(const Tensor& values, std::int64_t width) {
  const std::int64_t size = processes_.size(), rank = processes_.rank();
  const Tensor sent = sent_.of({width * size}, DType::kBFloat16, device_),
               received = received_.of({width * size}, DType::kBFloat16, device_);
  const cuda::QueueScope queue(Queue::kCommunication);
  sent.slice(0, values.numel()).copy_from(values.reshape({values.numel()}));
  group_.exchange(sent.raw(), received.raw(), width * static_cast<std::int64_t>(sizeof(bfloat16)));
  Tensor own = sent.slice(rank * width, (rank + 1) * width);
  cuda::sum_rows(received.data<bfloat16>(), own.data<bfloat16>(), size, width);
  return own;
}

void NcclCollectives::do_all_reduce(const Tensor& values, ReduceOp op, DType wire) {
  const std::int64_t count = values.numel();
  if (count == 0) return;
  run([&] {
    if (!is_summed_here(values, op, wire)) return group_.all_reduce(values.raw(), count, wire, op);
    constexpr std::int64_t kAligned = 8;  // elements that a kernel loads at once
    const std::int64_t size = processes_.size();
    const std::int64_t width = ((count + size - 1) / size + kAligned - 1) / kAligned * kAligned;
    const Tensor own = exchange_and_sum(values, width);
    const Tensor sums = sent_.of({width * size}, DType::kBFloat16, device_);
    group_.all_gather(own.raw(), sums.raw(), static_cast<std::int64_t>(own.bytes()));
    const cuda::QueueScope queue(Queue::kCommunication);
    values.reshape({count}).copy_from(sums.slice(0, count));
  });
}

void NcclCollectives::do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) {
  const std::int64_t width = part.numel();
  if (width == 0) return;
  run([&] {
    if (!is_summed_here(rows, op, wire))
      return group_.reduce_scatter(rows.raw(), part.raw(), width, wire, op);
    const Tensor own = exchange_and_sum(rows, width);
    const cuda::QueueScope queue(Queue::kCommunication);
    part.reshape({width}).copy_from(own);
  });
}

void NcclCollectives::do_all_gather(const Tensor& part, const Tensor& rows) {
  if (part.numel() == 0) return;
  run([&] { group_.all_gather(part.raw(), rows.raw(), static_cast<std::int64_t>(part.bytes())); });
}

void NcclCollectives::do_broadcast(const Tensor& values, int root) {
  if (values.numel() == 0) return;
  run([&] { group_.broadcast(values.raw(), static_cast<std::int64_t>(values.bytes()), root); });
}

void NcclCollectives::barrier() {
  check();
  run([&] { group_.all_reduce(token_.raw(), 1, token_.dtype(), ReduceOp::kMax); });
}

/// Who calls it needs no watchdog to come back from a collective, but still one to come back from the device.
void NcclCollectives::abort() noexcept {
  aborted_ = true;
  group_.abort();
  watchdog_->acknowledge();
}

void NcclCollectives::wait_for_abort() noexcept {
  group_.wait_for_abort(kAbortSeconds);
}

void NcclCollectives::leave() {
  check();
  watchdog_->stop();
  check();
  left_ = true;
  if (!group_.leave(kLeaveSeconds)) {
    throw CommError(
        error_message("comm", "NCCL", "the others to leave, too",
                      "that they have not after " + std::to_string(static_cast<int>(kLeaveSeconds)) + " s"));
  }
}

}  // namespace moh
