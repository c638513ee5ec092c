#include "train/run/train_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "autograd/profile.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "train/io/failpoint.h"
#include "train/log/progress.h"
#include "train/run/step_trace.h"

namespace moh {

namespace {

MicroBatchLoss forward(Task& task, std::int64_t micro_batch, Generator& generator) {
  const ProfilePhaseScope phase(ProfilePhase::kForward);
  return task.loss(micro_batch, generator);
}

/// At the failure point train:loss, the loss is NaN, or has a flipped exponent bit, with which all gradients
/// are 2^64 times as large.
void pass_failpoint(MicroBatchLoss& loss) {
#ifdef MOH_FAILPOINTS
  const int action = MOH_FAILPOINT("train:loss");
  const Tensor& value = loss.task_loss;
  if (action == failpoint::kNan)
    loss.task_loss =
        full(value.shape(), std::numeric_limits<double>::quiet_NaN(), value.dtype(), value.device());
  if (action == failpoint::kFlip) loss.total = scale(loss.total, 0x1p64);
#else
  static_cast<void>(loss);
#endif
}

/// Where the random keys of micro-batch `index` of `count` begin in those of the step: they do not depend on
/// what was drawn for other micro-batches, nor on which process computes them. Up to 1024 micro-batches have
/// at least 1024 keys each.
std::uint64_t first_key_of(std::int64_t index, std::int64_t count) {
  const std::uint64_t keys = Generator::first_stream_of(1) / std::bit_ceil(static_cast<std::uint64_t>(count));
  return static_cast<std::uint64_t>(index) * keys;
}

/// The concatenation of all tensors' elements, as float64 on their device.
Tensor packed(const std::vector<Tensor>& tensors, Device device) {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.numel();
  Tensor all = empty({count}, DType::kFloat64, device);
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    all.slice(begin, begin + tensor.numel()).copy_from(tensor.reshape({tensor.numel()}));
    begin += tensor.numel();
  }
  return all;
}

}  // namespace

TrainStep::TrainStep(Task& task, AdamW& optimizer, const RunConfig& config, Communicator& processes)
    : task_(task),
      optimizer_(optimizer),
      config_(config),
      processes_(processes),
      part_{processes.rank(), processes.size()},
      own_micro_batches_(config.train.accumulate / processes.size()),
      length_(length_of(config, task.steps_per_epoch())) {
  if (config.ema.decay > 0) average_.emplace(optimizer, config.ema.decay);
  if (config.device != kCpu) first_stream_ = zeros({}, DType::kInt64, config.device);
  if (config.cuda_graph) graph_ = std::make_unique<cuda::Graph>();
  if (processes.alone()) return;
  MOH_CHECK(config.device == kCpu && config.train.accumulate % processes.size() == 0,
            "several processes share the micro-batches of a step, on the CPU");
  std::vector<Variable> parameters;
  for (const NamedParameter& parameter : task.model().parameters()) parameters.push_back(parameter.variable);
  buckets_ = std::make_unique<GradientBuckets>(
      processes, parameters,
      GradientBuckets::Options{config.comm.bucket_bytes(), dtype_of(config.comm.gradients),
                               optimizer.shards() != nullptr});
}

std::unique_ptr<WeightsScope> TrainStep::evaluated_weights() const {
  if (!average_ || !config_.ema.evaluate) return nullptr;
  return std::make_unique<WeightsScope>(task_.model().parameters(), average_->state());
}

StepSize TrainStep::begin(std::int64_t step, double learning_rate) {
  begin_unless([] { return false; }, step, learning_rate);
  return under_way_.back().size;
}

bool TrainStep::begin_unless(FunctionRef<bool()> stop, std::int64_t step, double learning_rate) {
  const double began = monotonic_seconds();
  StepReport report;
  report.learning_rate = learning_rate;
  set_progress(step);
  StepSize own;
  {
    const WaitScope wait(kWaitForData, &report.data_seconds);
    own = task_.begin_step(own_micro_batches_);
  }
  const double waited = processes_.waited_seconds();
  const StepSize size = size_of_all(own);
  optimizer_.set_learning_rate(learning_rate);
  const std::uint64_t seed = config_.random_seed(), number = static_cast<std::uint64_t>(step);
  if (first_stream_.defined()) {
    const auto first = static_cast<std::int64_t>(Generator::first_stream_of(number));
    first_stream_.copy_from(tensor_of<std::int64_t>({}, {first}));
  }
  const Generator generator =
      first_stream_.defined() ? Generator(seed, first_stream_) : Generator(seed, number);
  const bool complete = compute(stop, size, generator);
  task_.end_step();
  report.comm_seconds = processes_.waited_seconds() - waited;
  if (complete) under_way_.push_back({report, size, began, HostCopy(numbers_)});
  if (graph_ == nullptr) numbers_ = {};
  return complete;
}

void TrainStep::set_progress(std::int64_t step) {
  const double steps = static_cast<double>(std::max<std::int64_t>(length_.steps, 1));
  if (!task_.set_progress(static_cast<double>(step) / steps)) return;
  // The numbers of earlier steps mean what they meant.
  for (Pending& pending : under_way_) read(pending);
  numbers_ = captured_numbers_ = {};  // memory of the graph
  if (graph_ != nullptr) graph_ = std::make_unique<cuda::Graph>();
  repeated_ = {};
  repetitions_ = 0;
}

StepSize TrainStep::size_of_all(StepSize own) {
  if (processes_.alone()) return own;
  const WaitScope wait(kWaitForProcesses);
  const Tensor sizes = tensor_of<std::int64_t>({2}, {own.items, own.targets});
  processes_.all_reduce(sizes, ReduceOp::kSum);
  const auto all = sizes.span<std::int64_t>();
  task_.set_targets(all[1]);
  return {all[0], all[1]};
}

/// False if `stop` interrupted the step.
bool TrainStep::compute(FunctionRef<bool()> stop, const StepSize& size, Generator generator) {
  if (graph_ == nullptr || StepTrace::is_on() || !is_settled(task_.model())) {
    numbers_ = forward_backward_update(stop, generator);
    return numbers_.defined();
  }
  const auto never = [] { return false; };  // a captured step cannot be interrupted
  compute_with_graph(size, [&] { numbers_ = forward_backward_update(never, generator); });
  return true;
}

void TrainStep::compute_with_graph(const StepSize& size, FunctionRef<void()> work) {
  if (graph_->captured()) {
    if (size != repeated_) return work();
    graph_->launch();
    numbers_ = captured_numbers_;
    return;
  }
  repetitions_ = size == repeated_ ? repetitions_ + 1 : 0;
  repeated_ = size;
  if (repetitions_ < kRehearsals) return graph_->rehearse(work);
  graph_->capture(work);
  captured_numbers_ = numbers_;
  graph_->launch();
}

/// The losses of the step's micro-batches and then their other numbers, as if one process had computed all.
Tensor TrainStep::numbers_of_all(const std::vector<Tensor>& losses, const std::vector<Tensor>& numbers) {
  std::vector<Tensor> own = losses;
  own.insert(own.end(), numbers.begin(), numbers.end());
  Tensor part = packed(own, config_.device);
  if (processes_.alone()) return part;
  const Tensor rows = empty({part_.processes, part.numel()}, DType::kFloat64);
  {
    const WaitScope wait(kWaitForProcesses);
    processes_.all_gather(part, rows);
  }
  std::vector<Tensor> of_all;
  for (std::int64_t r = 0; r < part_.processes; ++r)
    of_all.push_back(rows.select(r).slice(0, own_micro_batches_));
  for (std::int64_t r = 0; r < part_.processes; ++r)
    of_all.push_back(rows.select(r).slice(own_micro_batches_, part.numel()));
  return packed(of_all, config_.device);
}

/// The part of a step that is captured: from the first forward pass to the update. Returns the numbers for
/// the host, or an undefined tensor, without an update, if `stop` returned true.
Tensor TrainStep::forward_backward_update(FunctionRef<bool()> stop, Generator generator) {
  optimizer_.zero_grad();
  if (buckets_) buckets_->begin_step();
  std::vector<Tensor> losses, numbers;
  for (std::int64_t i = 0; i < own_micro_batches_; ++i) {
    if (stop()) return {};
    generator.restore(first_key_of(part_.rank * own_micro_batches_ + i, config_.train.accumulate));
    MicroBatchLoss part = forward(task_, i, generator);
    pass_failpoint(part);
    if (buckets_ && i + 1 == own_micro_batches_) buckets_->expect_last_pass();
    part.total.backward();
    losses.push_back(part.task_loss);
    for (Tensor& number : part.numbers) numbers.push_back(std::move(number));
  }
  if (buckets_) buckets_->finish();
  const ProfilePhaseScope phase(ProfilePhase::kOptimizer);
  const Tensor all = numbers_of_all(losses, numbers);
  if (before_update_) before_update_();
  const Tensor outcome = optimizer_.update(all.slice(0, config_.train.accumulate));
  if (average_) average_->update(outcome.slice(1, 2));
  return packed({outcome, all}, config_.device);
}

StepReport TrainStep::finish() {
  MOH_CHECK(!under_way_.empty(), "begin() comes first");
  Pending step = std::move(under_way_.front());
  under_way_.pop_front();
  read(step);
  return std::move(step.report);
}

/// Completes the report of a step, once.
void TrainStep::read(Pending& step) {
  if (std::exchange(step.is_read, true)) return;
  std::span<const double> numbers = step.numbers.get().span<double>();
  StepReport& report = step.report;
  report.gradient_norm = numbers[0];
  report.skipped = numbers[1] == 0.0;
  if (!report.skipped) optimizer_.count_update();
  const auto count = static_cast<std::size_t>(config_.train.accumulate);
  for (const double loss : numbers.subspan(2, count)) report.loss += loss;
  report.statistics = task_.statistics(step.size, config_.train.accumulate, numbers.subspan(2 + count));
  const double now = monotonic_seconds();
  report.seconds = now - std::max(step.began, finished_at_);  // without waiting for the previous step
  finished_at_ = now;
}

}  // namespace moh
