#include "train/trainer/run/train_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "autograd/profile.h"
#include "autograd/recompute.h"
#include "core/copy_to_row.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "train/base/io/failpoint.h"
#include "train/base/log/progress.h"
#include "train/trainer/run/step_trace.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

namespace {

MicroBatchLoss forward(const MicroBatch& batch, Generator& generator) {
  const ProfilePhaseScope phase(ProfilePhase::kForward);
  return batch.loss(generator);
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

StepSize sum_of(const std::vector<StepSize>& sizes) {
  StepSize sum;
  for (const StepSize& size : sizes) {
    sum.items += size.items;
    sum.targets += size.targets;
  }
  return sum;
}

std::vector<std::int64_t> items_of(const std::vector<StepSize>& sizes) {
  std::vector<std::int64_t> items;
  for (const StepSize& size : sizes) items.push_back(size.items);
  return items;
}

std::int64_t count_elements(const std::vector<Tensor>& tensors) {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

/// The concatenation of all tensors' elements, as float64 on their device.
Tensor packed(const std::vector<Tensor>& tensors, Device device) {
  Tensor all = empty({count_elements(tensors)}, DType::kFloat64, device);
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    all.slice(begin, begin + tensor.numel()).copy_from(tensor.reshape({tensor.numel()}));
    begin += tensor.numel();
  }
  return all;
}

}  // namespace

TrainStep::TrainStep(Task& task, AdamW& optimizer, const RunConfig& config, Communicator& processes,
                     const std::shared_ptr<ShardedParameters>& sharded)
    : task_(task),
      optimizer_(optimizer),
      config_(config),
      replicas_(make_replicas(task.model(), optimizer, config, processes, sharded)),
      fused_(replicas_->fused_update()),
      part_(replicas_->part()),
      own_micro_batches_(config.train.accumulate / part_.processes),
      biases_(task.model()),
      length_(length_of(config, task.steps_per_epoch())) {
  if (config.ema.decay > 0) average_.emplace(optimizer, AverageDecay{config.ema.decay, config.ema.warmup});
  micro_batch_ = zeros({2}, DType::kInt64, config.device);
  if (config.cuda_graph) graphs_.emplace();
  const MohConfig* const moh = config.family ? config.family->moh() : nullptr;
  if (moh != nullptr && counts_loads_first(*moh, config.train.accumulate)) loads_.emplace();
  MOH_CHECK(fused_ == nullptr || own_micro_batches_ == 1, "a fused update has one micro-batch");
  optimizer.keep_gradients();  // after make_replicas(), which may have them in buckets
}

std::unique_ptr<WeightsScope> TrainStep::evaluated_weights() const {
  if (!average_ || !config_.ema.evaluate) return nullptr;
  return replicas_->take_average(task_.model(), *average_);
}

void TrainStep::lend_memory(FunctionRef<void()> work) {
  const auto read = [&] {
    work();
    replicas_->after_reading();
  };
  graphs_ ? graphs_->lend(read) : read();
}

StepSize TrainStep::begin(std::int64_t step, double learning_rate) {
  begin_unless([] { return false; }, step, learning_rate);
  return under_way_.back().size;
}

bool TrainStep::begin_unless(FunctionRef<bool()> stop, std::int64_t step, double learning_rate) {
  replicas_->check();
  const double began = monotonic_seconds();
  StepReport report;
  report.learning_rate = learning_rate;
  set_progress(step);
  const auto begin_data = [&] {
    const WaitScope wait(kWaitForData, &report.data_seconds);
    return task_.begin_step(own_micro_batches_);
  };
  TrainingStep data = begin_data();
  const double waited = replicas_->waited_seconds();
  const std::vector<StepSize> sizes = replicas_->sizes_of_all(data.size());
  const StepSize size = sum_of(sizes);
  data.set_targets(size.targets);
  optimizer_.set_learning_rate(learning_rate);
  if (average_) average_->set_step(step);
  const std::int64_t own_items = data.size().items;
  const bool complete = operations_.count(own_items, is_settled(task_.model()),
                                          [&] { return compute(data, stop, step, sizes, report); });
  report.flops = operations_.of(own_items);
  replicas_->compare_calls();
  report.comm_seconds = replicas_->waited_seconds() - waited;
  if (complete) under_way_.push_back({report, size, began, HostCopy(numbers_), layout_});
  if (!graphs_) numbers_ = own_ = {};
  return complete;
}

void TrainStep::set_progress(std::int64_t step) {
  const double steps = static_cast<double>(std::max<std::int64_t>(length_.steps, 1));
  if (!task_.set_progress(static_cast<double>(step) / steps)) return;
  operations_.forget();
  for (Pending& pending : under_way_) pending.numbers.get();  // replays have ended before graphs go
  release_graphs();
}

void TrainStep::release_graphs() noexcept {
  numbers_ = own_ = {};  // memory of the graphs, if one process has no others to send it to
  if (loads_) loads_.emplace();
  if (graphs_) graphs_->reset();
}

StepStage TrainStep::stage_of(std::int64_t micro_batch) const {
  if (replicas_->sums_gradients() && micro_batch + 1 == own_micro_batches_) return StepStage::kLastMicroBatch;
  return micro_batch == 0 ? StepStage::kFirstMicroBatch : StepStage::kNextMicroBatch;
}

/// False if `stop` interrupted the step.
bool TrainStep::compute(TrainingStep& data, FunctionRef<bool()> stop, std::int64_t step,
                        const std::vector<StepSize>& sizes, StepReport& report) {
  captures_ = graphs_ && !StepTrace::is_on() && is_settled(task_.model());
  if (captures_) graphs_->begin_step(items_of(sizes));
  if (loads_ && !count_loads(data, stop, step, report.data_seconds)) return false;
  replicas_->begin_gradients();
  for (std::int64_t i = 0; i < own_micro_batches_; ++i) {
    if (stop()) return false;
    replicas_->before_pass();  // nothing has to come before it
    const Loaded loaded = load(data, step, i, report.data_seconds);
    const auto pass = [&] { forward_backward(i, loaded.batch, loaded.generator); };
    run(stage_of(i), [&] { replicas_->run_pass(i == 0, pass); });
  }
  replicas_->after_passes();
  run(StepStage::kUpdate, [&] { update(); });
  replicas_->after_update();
  if (captures_) graphs_->end_step();
  return true;
}

/// Does `work`, or replays it.
void TrainStep::run(StepStage stage, FunctionRef<void()> work) {
  if (captures_) return graphs_->run(stage, work);
  work();
}

/// Counts the loads of the step in forward passes whose selection is that of the following
/// forward_backward(): same weights, same random numbers. False if `stop` interrupted it.
bool TrainStep::count_loads(TrainingStep& data, FunctionRef<bool()> stop, std::int64_t step,
                            double& data_seconds) {
  replicas_->prepare_loads();
  loads_->begin(config_.train.accumulate);
  for (std::int64_t i = 0; i < own_micro_batches_; ++i) {
    if (stop()) return false;
    replicas_->before_pass();
    const Loaded loaded = load(data, step, i, data_seconds);
    const auto pass = [&] {
      const ProfilePhaseScope phase(ProfilePhase::kForward);
      const FirstRunScope first_run;
      Generator generator = loaded.generator;
      loads_->add(loaded.batch.head_loads(generator));
    };
    run(StepStage::kCountLoads, [&] { replicas_->run_pass(false, pass); });
  }
  replicas_->sum(loads_->all());
  data.set_balance_loads(loads_->of_layers());
  return true;
}

/// Puts into device memory what distinguishes a micro-batch from others.
TrainStep::Loaded TrainStep::load(TrainingStep& data, std::int64_t step, std::int64_t micro_batch,
                                  double& data_seconds) {
  const auto load_data = [&] {
    const WaitScope wait(kWaitForData, &data_seconds);
    return data.load(micro_batch);
  };
  const MicroBatch batch = load_data();
  const auto number = static_cast<std::uint64_t>(step);
  const std::uint64_t first_key =
      first_key_of(part_.rank * own_micro_batches_ + micro_batch, config_.train.accumulate);
  const auto first_stream = static_cast<std::int64_t>(Generator::first_stream_of(number) + first_key);
  micro_batch_.copy_from(tensor_of<std::int64_t>({2}, {micro_batch, first_stream}));
  if (config_.device != kCpu) return {batch, {config_.random_seed(), micro_batch_.slice(1, 2)}};
  Generator generator(config_.random_seed(), number);
  generator.restore(first_key);
  return {batch, generator};
}

void TrainStep::forward_backward(std::int64_t micro_batch, const MicroBatch& batch, Generator generator) {
  if (micro_batch == 0) optimizer_.zero_grad();
  MicroBatchLoss loss = forward(batch, generator);
  pass_failpoint(loss);
  if (fused_ != nullptr) begin_fused_update(loss);
  const bool is_last = micro_batch + 1 == own_micro_batches_;
  replicas_->expect_backward(is_last);
  loss.total.backward();
  if (fused_ == nullptr) keep(loss);
  replicas_->finish_backward(is_last);
}

/// The update of the first parameter depends on nothing but what the step has computed so far.
void TrainStep::begin_fused_update(const MicroBatchLoss& loss) {
  keep(loss);
  all_ = losses_and_numbers_of_all();
  before_update_();
  fused_->begin(all_.slice(0, config_.train.accumulate));
}

/// Puts the numbers of the micro-batch, whose number is in device memory, beside those of the others.
void TrainStep::keep(const MicroBatchLoss& loss) {
  const std::vector<Tensor> numbers = values_of(loss.numbers);
  layout_ = std::make_shared<const NumberLayout>(loss.numbers);
  const std::int64_t count = own_micro_batches_, width = count_elements(numbers);
  if (!own_.defined() || own_.numel() != count * (1 + width)) {
    // As allocators round, so that each micro-batch takes the same memory (train/apps/plan/dry_step.h).
    constexpr std::int64_t kUnit = 256 / sizeof(double);
    const std::int64_t each = (1 + width + kUnit - 1) / kUnit * kUnit;
    const Shape whole = {count * each};
    own_ = part_.processes == 1 ? empty(whole, DType::kFloat64, config_.device)
                                : own_memory_.of(whole, DType::kFloat64, config_.device);
    own_ = own_.slice(0, count * (1 + width));
  }
  const Tensor number = micro_batch_.slice(0, 1);
  copy_to_row(own_.slice(0, count).reshape({count, 1}), number, std::span(&loss.task_loss, 1));
  copy_to_row(own_.slice(count, own_.numel()).reshape({count, width}), number, numbers);
}

/// The losses of the step's micro-batches and then their other numbers, as if one process had computed all.
Tensor TrainStep::losses_and_numbers_of_all() {
  if (part_.processes == 1) return own_;
  const Tensor rows = replicas_->rows_of_all(own_);
  std::vector<Tensor> of_all;
  for (std::int64_t r = 0; r < part_.processes; ++r)
    of_all.push_back(rows.select(r).slice(0, own_micro_batches_));
  for (std::int64_t r = 0; r < part_.processes; ++r)
    of_all.push_back(rows.select(r).slice(own_micro_batches_, own_.numel()));
  return packed(of_all, config_.device);
}

Tensor TrainStep::update_parameters(const Tensor& losses) {
  if (fused_ != nullptr) return fused_->finish();
  before_update_();
  return optimizer_.update(losses);
}

/// Moves the biases of the selection by losses_and_numbers_of_all().
void TrainStep::update_biases(const Tensor& all, const Tensor& go) const {
  if (biases_.empty()) return;
  const std::int64_t count = config_.train.accumulate, width = all.numel() / count - 1;
  biases_.update(all.slice(count, all.numel()).reshape({count, width}), *layout_, go);
}

/// The end of a step: what follows from all its gradients and losses.
void TrainStep::update() {
  const ProfilePhaseScope phase(ProfilePhase::kOptimizer);
  const Tensor all = fused_ != nullptr ? std::exchange(all_, {}) : losses_and_numbers_of_all();
  const Tensor outcome = update_parameters(all.slice(0, config_.train.accumulate));
  if (average_) average_->update(outcome.slice(1, 2));
  update_biases(all, outcome.slice(1, 2));
  const std::int64_t count = outcome.numel() + all.numel();
  if (!numbers_.defined() || numbers_.numel() != count)
    numbers_ = empty({count}, DType::kFloat64, config_.device);
  numbers_.slice(0, outcome.numel()).copy_from(outcome);
  numbers_.slice(outcome.numel(), numbers_.numel()).copy_from(all);
}

StepReport TrainStep::finish() {
  MOH_CHECK(!under_way_.empty(), "begin() comes first");
  Pending step = std::move(under_way_.front());
  under_way_.pop_front();
  read(step);
  return std::move(step.report);
}

/// Completes the report of a step.
void TrainStep::read(Pending& step) {
  std::span<const double> numbers = step.numbers.get().span<double>();
  StepReport& report = step.report;
  report.gradient_norm = numbers[0];
  report.skipped = numbers[1] == 0.0;
  if (!report.skipped) optimizer_.count_update();
  const auto count = static_cast<std::size_t>(config_.train.accumulate);
  for (const double loss : numbers.subspan(2, count)) report.loss += loss;
  report.statistics =
      step.layout->statistics(step.size.items, config_.train.accumulate, numbers.subspan(2 + count));
  const double now = monotonic_seconds();
  report.seconds = now - std::max(step.began, finished_at_);  // without waiting for the previous step
  finished_at_ = now;
}

}  // namespace moh
