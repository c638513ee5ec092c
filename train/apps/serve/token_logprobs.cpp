#include "train/apps/serve/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace moh {

namespace {

/// log sum exp of the logits.
double log_sum_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double result = largest + std::log(sum);
  if (!std::isfinite(result))
    throw NumericError("the model's logits are not finite; its weights are damaged");
  return result;
}

/// The ids of the `count` largest logits.
std::vector<TokenId> largest_of(std::span<const float> logits, std::int64_t count) {
  const auto before = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<TokenId> largest;
  for (TokenId id = 0; id < std::ssize(logits); ++id) {
    if (std::ssize(largest) == count) {
      if (!before(id, largest.back())) continue;
      largest.pop_back();
    }
    largest.insert(std::ranges::upper_bound(largest, id, before), id);
  }
  return largest;
}

}  // namespace

TokenLogprobs logprobs_of(std::span<const float> logits, TokenId id, std::int64_t top) {
  const double log_sum = log_sum_of(logits);
  const auto logprob = [&](TokenId of) {
    const double value = static_cast<double>(logits[static_cast<std::size_t>(of)]) - log_sum;
    return static_cast<float>(std::max(value, static_cast<double>(std::numeric_limits<float>::lowest())));
  };
  TokenLogprobs score{id, logprob(id), {}};
  if (top == 0) return score;
  for (const TokenId each : largest_of(logits, std::min(top, static_cast<std::int64_t>(logits.size()))))
    score.top.push_back({each, logprob(each)});
  return score;
}

}  // namespace moh
