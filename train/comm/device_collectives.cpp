#include "train/comm/device_collectives.h"

#include <array>
#include <exception>
#include <span>
#include <utility>

#include "core/cuda/queue.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "train/comm/collective_timer.h"
#include "train/comm/comm_error.h"
#include "train/comm/communicator.h"

namespace moh {

namespace {

/// FNV-1a: calls that differ are told apart, whoever makes them is to be trusted.
std::uint64_t mixed(std::uint64_t digest, std::string_view text) {
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return digest;
}

/// Makes `collective` a part of the compute queue's work.
void in_line(FunctionRef<void()> collective) {
  if (dry_run()) return collective();
  cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
  collective();
  cuda::wait_for(cuda::Queue::kCompute, cuda::Queue::kCommunication);
}

}  // namespace

/// Notes a call, and makes it.
void DeviceCollectives::call(std::string_view name, const Tensor& values, DType wire, int detail,
                             FunctionRef<void()> work) {
  check();
  last_call_ = std::string(name) + " of " + std::to_string(values.numel()) + " elements of " +
               std::string(dtype_name(wire));
  if (detail != 0) last_call_ += " (" + std::to_string(detail) + ")";
  digest_ = mixed(digest_, last_call_);
  ++calls_;
  if (timer_ == nullptr) return work();
  timer_->begin(std::string(name), static_cast<std::size_t>(values.numel()) * dtype_size(wire));
  work();
  timer_->end();
}

void DeviceCollectives::all_reduce(const Tensor& values, ReduceOp op, DType wire) {
  call("all-reduce", values, wire, static_cast<int>(op), [&] { do_all_reduce(values, op, wire); });
}

void DeviceCollectives::reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) {
  MOH_CHECK(rows.dtype() == part.dtype() && rows.shape()[0] * part.numel() == rows.numel(),
            "a row for each process");
  call("reduce-scatter", rows, wire, static_cast<int>(op), [&] { do_reduce_scatter(rows, part, op, wire); });
}

void DeviceCollectives::all_gather(const Tensor& part, const Tensor& rows) {
  MOH_CHECK(rows.dtype() == part.dtype() && rows.shape()[0] * part.numel() == rows.numel(),
            "a row for each process");
  call("all-gather", rows, rows.dtype(), 0, [&] { do_all_gather(part, rows); });
}

void DeviceCollectives::all_gather_in_line(const Tensor& part, const Tensor& rows) {
  in_line([&] { all_gather(part, rows); });
}

void DeviceCollectives::all_reduce_in_line(const Tensor& values, ReduceOp op) {
  in_line([&] { all_reduce(values, op, values.dtype()); });
}

void DeviceCollectives::broadcast(const Tensor& values, int root) {
  call("broadcast", values, values.dtype(), root, [&] { do_broadcast(values, root); });
}

void DeviceCollectives::require_same_calls(Communicator& processes) {
  if (processes.alone() || calls_ == compared_) return;
  compared_ = calls_;
  const Tensor own = tensor_of<std::int64_t>({2}, {calls_, static_cast<std::int64_t>(digest_)});
  const Tensor all = empty({processes.size(), 2}, DType::kInt64);
  processes.all_gather(own, all);
  const std::span<const std::int64_t> numbers = all.span<std::int64_t>();
  int other = 0;
  const auto differs = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank) * 2;
    return numbers[at] != numbers[0] || numbers[at + 1] != numbers[1];
  };
  while (other < processes.size() && !differs(other)) ++other;
  if (other == processes.size()) return;
  abort();
  const std::vector<std::string> last = processes.texts_of_all(last_call_);
  const auto text_of = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::to_string(numbers[r * 2]) + " calls, the last of them " + last[r];
  };
  throw CommError(error_message("comm", "collectives of the GPUs", text_of(0) + ", as rank 0",
                                text_of(other) + ", from rank " + std::to_string(other),
                                "the processes do different work, although they began alike: please report "
                                "this as a bug in moh"));
}

AbortOnFailure::AbortOnFailure(DeviceCollectives& collectives, std::function<void()> release_captures)
    : collectives_(collectives),
      release_captures_(std::move(release_captures)),
      exceptions_(std::uncaught_exceptions()) {}

AbortOnFailure::~AbortOnFailure() {
  if (std::uncaught_exceptions() == exceptions_) return;
  collectives_.abort();
  release_captures_();
  collectives_.wait_for_abort();
}

}  // namespace moh
