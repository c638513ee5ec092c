#include "train/tasks/language/generate/token_picker.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace moh {

TokenPicker::TokenPicker(const PickOptions& options, RandomKey key) : options_(options), key_(key) {
  const auto refuse = [](const char* what, const char* expected, double found) {
    throw ValueError(error_message("generate", what, expected, std::to_string(found)));
  };
  if (!(options.temperature >= 0)) refuse("temperature", "0 or more", options.temperature);
  if (options.top_k < 0) refuse("top_k", "0 (all) or more", static_cast<double>(options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1)) refuse("top_p", "above 0, up to 1", options.top_p);
}

std::int32_t TokenPicker::pick(std::span<const float> logits) {
  order_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) order_.push_back(static_cast<std::int32_t>(i));
  }
  if (order_.empty())
    throw NumericError("generate: the model's logits are not numbers; its weights are damaged");
  const auto logit = [&](std::int32_t id) {
    return static_cast<double>(logits[static_cast<std::size_t>(id)]);
  };
  // Ties go to the lower id, so that the order is the same everywhere.
  std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  const std::uint64_t draw = draws_++;
  if (options_.temperature == 0) return order_[0];
  if (options_.top_k > 0) order_.resize(std::min(order_.size(), static_cast<std::size_t>(options_.top_k)));

  weights_.clear();
  double sum = 0;
  for (std::int32_t id : order_)
    sum += weights_.emplace_back(std::exp((logit(id) - logit(order_[0])) / options_.temperature));
  std::size_t kept = 0;
  double mass = 0;
  while (kept < order_.size() && (kept == 0 || mass < options_.top_p * sum)) mass += weights_[kept++];

  double left = mass * random_uniform(key_, draw);
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weights_[i];
    if (left < 0) return order_[i];
  }
  return order_[kept - 1];  // rounding left a little over
}

}  // namespace moh
