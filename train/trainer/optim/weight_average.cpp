#include "train/trainer/optim/weight_average.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace moh {

namespace {

/// Copies of the weights that are averaged.
std::vector<NamedTensor> copies_of(const std::vector<NamedTensor>& weights) {
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  std::vector<NamedTensor> copies;
  for (const auto& [name, tensor] : weights) copies.push_back({name, tensor.clone()});
  return copies;
}

std::vector<EmaParameter> pairs_of(const std::vector<NamedTensor>& averages,
                                   const std::vector<NamedTensor>& weights) {
  std::vector<EmaParameter> pairs;
  for (std::size_t i = 0; i < averages.size(); ++i) pairs.push_back({averages[i].tensor, weights[i].tensor});
  return pairs;
}

}  // namespace

double AverageDecay::at(std::int64_t step) const {
  if (!warmup) return decay;
  const auto t = static_cast<double>(step);
  return std::min(decay, (1 + t) / (10 + t));
}

double AverageDecay::share_of_first(std::int64_t steps) const {
  if (!warmup) return std::pow(decay, static_cast<double>(steps));
  // The factors (1 + t) / (10 + t) alone leave less than 1e-9 after 50 steps.
  constexpr std::int64_t kMany = 1000;
  double share = 1;
  for (std::int64_t t = 0; t < std::min(steps, kMany); ++t) share *= at(t);
  return share;
}

WeightAverage::WeightAverage(const AdamW& optimizer, AverageDecay decay)
    : optimizer_(optimizer),
      trained_(copies_of(optimizer.weights())),
      update_(pairs_of(trained_, optimizer.weights())),
      decay_(decay),
      now_(decay.at(0)) {
  if (!decay.warmup || trained_.empty() || trained_.front().tensor.device() == kCpu) return;
  rate_ = full({}, 1 - now_, DType::kFloat64).to(trained_.front().tensor.device());
}

void WeightAverage::set_step(std::int64_t step) {
  now_ = decay_.at(step);
  if (rate_.defined()) rate_.copy_from(full({}, 1 - now_, DType::kFloat64));
}

void WeightAverage::update(const Tensor& go) const {
  if (rate_.defined()) return update_.update_by(rate_, go);
  update_.update(now_, go);
}

std::vector<NamedTensor> WeightAverage::state() const {
  std::vector<NamedTensor> all = optimizer_.gathered(trained_);
  all.insert(all.end(), optimizer_.frozen().begin(), optimizer_.frozen().end());
  return all;
}

WeightsScope::WeightsScope(const std::vector<NamedParameter>& parameters,
                           const std::vector<NamedTensor>& values) {
  MOH_CHECK(parameters.size() == values.size(), "WeightsScope: a value for each parameter");
  for (const NamedParameter& parameter : parameters) {
    const auto value = std::ranges::find(values, parameter.name, &NamedTensor::name);
    MOH_CHECK(value != values.end(), "WeightsScope: a value for each parameter");
    const Tensor& place = parameter.variable.value();
    if (value->tensor.is_same(place)) continue;
    own_.push_back(place.clone());
    places_.push_back(place);
    place.copy_from(value->tensor.to(place.dtype()));
  }
}

WeightsScope::~WeightsScope() {
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].copy_from(own_[i]);
}

}  // namespace moh
