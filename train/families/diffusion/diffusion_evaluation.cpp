#include "train/families/diffusion/diffusion_evaluation.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/families/images/data/changed_data.h"
#include "train/families/images/evaluation_batches.h"

namespace moh {

namespace {

/// Sums over pictures that count: their number, and the two parts of their losses.
using Sums = std::array<double, 3>;

DiffusionTargets on(const DiffusionTargets& t, Device device) {
  return {t.start.to(device), t.sample.to(device), t.noise.to(device), t.factors.to(device)};
}

/// Broken pictures do not count.
Sums sums_of(const Dit& model, DiffusionObjective objective, const DiffusionBatch& batch) {
  const std::int64_t rows = batch.steps.dim(0);
  std::vector<bool> counts;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t& label = batch.labels.data<std::int64_t>()[row];
    counts.push_back(label != kIgnoredTarget);
    if (!counts.back()) label = model.config().no_class();
  }
  const Device device = model.device();
  DitInput input = batch.input(model.dtype());
  input = {Variable(input.images.value().to(device)), input.steps.to(device), input.labels.to(device)};
  const DiffusionLoss loss =
      objective_loss(objective, model.forward(input).prediction, on(batch.targets, device), 1.0);
  const Tensor errors = loss.squared_error.to(kCpu), bounds = loss.bound.to(kCpu);
  Sums sums{};
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!counts[static_cast<std::size_t>(row)]) continue;
    sums[0] += 1;
    sums[1] += errors.data<float>()[row];
    sums[2] += bounds.data<float>()[row];
  }
  return sums;
}

}  // namespace

HeldOutSamples::HeldOutSamples(HeldOutStartsPtr starts, const DitConfig& model,
                               const DiffusionConfig& trained, const HeldOutOptions& options,
                               std::shared_ptr<BrokenPictures> broken)
    : starts_(std::move(starts)),
      pictures_(starts_->size(), options.most),
      samples_(model, trained),
      options_(options),
      no_class_(model.no_class()),
      broken_(std::move(broken)) {}

std::int64_t HeldOutSamples::size() const {
  return (pictures_.size() + options_.batch_size - 1) / options_.batch_size;
}

std::int64_t HeldOutSamples::rows(std::int64_t batch) const {
  return std::min(options_.batch_size, pictures_.size() - batch * options_.batch_size);
}

void HeldOutSamples::make(DiffusionBatch& batch, std::int64_t number, std::int64_t row) const {
  const std::int64_t picture = pictures_.at(number * options_.batch_size + row);
  std::int64_t& label = batch.labels.data<std::int64_t>()[row];
  label = options_.labels_count ? starts_->label(picture) : no_class_;
  const std::span<float> start = NoisySamples::start_of(batch, row);
  try {
    starts_->make(picture, start);
  } catch (const ChangedDataError&) {
    throw;
  } catch (const DataError& error) {
    if (options_.on_error == OnError::kStop) throw;
    broken_->add(picture, error.what());
    label = kIgnoredTarget;
    std::ranges::fill(start, 0.0F);
  }
  samples_.make_held_out(batch, row, picture);
}

std::optional<Evaluation> evaluate_diffusion_model(const Dit& model, const HeldOutSamples& data, int workers,
                                                   StopEvaluation stop, Communicator& processes) {
  const NoGrad no_grad;
  const std::int64_t total = data.pictures().size(), batch_size = data.rows(0);
  BatchWorkers<DiffusionBatch> batches = evaluation_batches(data, workers, processes);
  Sums sums{};
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < data.size(); first += processes.size()) {
    if (stop({done, total})) return std::nullopt;
    Sums own = sums_of(model, data.objective(), batches.next());
    if (first + processes.rank() >= data.size()) own = {};
    add_in_order(sums, own, processes);
    done = std::min(done + batch_size * processes.size(), total);
  }
  const auto [count, errors, bounds] = sums;
  if (count == 0)
    throw DataError("evaluation: none of the " + std::to_string(total) + " pictures can be decoded");
  Evaluation evaluation;
  evaluation.score = (errors + bounds) / count;
  evaluation.metrics.emplace_back(error_name(data.objective()), errors / count);
  if (data.objective() == DiffusionObjective::kNoise)
    evaluation.metrics.emplace_back("bound_bits", bounds / count);
  evaluation.evaluated = static_cast<std::int64_t>(count);
  evaluation.held_out = data.pictures().total();
  evaluation.coverage =
      std::to_string(evaluation.evaluated) + " of " + std::to_string(evaluation.held_out) + " images";
  return evaluation;
}

}  // namespace moh
