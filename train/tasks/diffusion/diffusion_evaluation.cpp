#include "train/tasks/diffusion/diffusion_evaluation.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/tasks/images/evaluation_batches.h"

namespace moh {

namespace {

/// Of pictures that count: their number, and the sums of the two parts of their losses.
using Sums = std::array<double, 3>;

DiffusionTargets on(const DiffusionTargets& t, Device device) {
  return {t.start.to(device), t.sample.to(device), t.noise.to(device), t.factors.to(device)};
}

/// `first` is the number of the batch's first picture. Broken ones do not count.
Sums sums_of(const Dit& model, const NoisySamples& samples, DiffusionBatch batch, std::int64_t first) {
  const std::int64_t rows = batch.steps.dim(0);
  std::vector<bool> counts;
  for (std::int64_t row = 0; row < rows; ++row) {
    samples.make_held_out(batch, row, first + row);
    std::int64_t& label = batch.labels.data<std::int64_t>()[row];
    counts.push_back(label != kIgnoredTarget);
    if (!counts.back()) label = model.config().no_class();
  }
  const Device device = model.device();
  DitInput input = batch.input(model.dtype());
  input = {Variable(input.images.value().to(device)), input.steps.to(device), input.labels.to(device)};
  const DiffusionLoss loss = diffusion_loss(model.forward(input).prediction, on(batch.targets, device));
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

std::optional<Evaluation> evaluate_diffusion_model(const Dit& model, const EvaluationPictures& data,
                                                   int workers, StopEvaluation stop,
                                                   Communicator& processes) {
  const NoGrad no_grad;
  const std::int64_t total = data.source().size(), batch_size = data.rows(0);
  const NoisySamples samples(model.config(), 0);
  BatchWorkers<PictureBatch> batches = evaluation_batches(data, workers, processes);
  Sums sums{};
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < data.size(); first += processes.size()) {
    if (stop({done, total})) return std::nullopt;
    Sums own{};
    const std::int64_t number = first + processes.rank();
    if (number < data.size())
      own = sums_of(model, samples, samples.begin(batches.next()), number * batch_size);
    add_in_order(sums, own, processes);
    done = std::min(done + batch_size * processes.size(), total);
  }
  const auto [count, errors, bounds] = sums;
  if (count == 0)
    throw DataError("evaluation: none of the " + std::to_string(total) + " pictures can be decoded");
  Evaluation evaluation;
  evaluation.score = (errors + bounds) / count;
  evaluation.metrics = {{"noise_mse", errors / count}, {"bound_bits", bounds / count}};
  evaluation.coverage =
      std::to_string(static_cast<std::int64_t>(count)) + " of " + std::to_string(total) + " images";
  return evaluation;
}

}  // namespace moh
