#include "train/optim/weight_average.h"

#include <algorithm>

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

WeightAverage::WeightAverage(const AdamW& optimizer, double decay)
    : optimizer_(optimizer),
      trained_(copies_of(optimizer.weights())),
      update_(pairs_of(trained_, optimizer.weights())),
      decay_(decay) {}

std::vector<NamedTensor> WeightAverage::state() const {
  std::vector<NamedTensor> all = optimizer_.shards() == nullptr ? trained_ : optimizer_.gathered(trained_);
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
    if (value->tensor.shares_storage_with(place)) continue;
    own_.push_back(place.clone());
    places_.push_back(place);
    place.copy_from(value->tensor.to(place.dtype()));
  }
}

WeightsScope::~WeightsScope() {
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].copy_from(own_[i]);
}

}  // namespace moh
