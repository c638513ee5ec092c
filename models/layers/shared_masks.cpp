#include "models/layers/shared_masks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "ops/moh/head_masks.h"

namespace moh {

namespace {

std::vector<double> numbers_of(const Variable& x) {
  const Tensor wide = x.value().to(DType::kFloat64);
  const auto numbers = wide.span<double>();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

SharedMasks::SharedMasks(std::int64_t heads, std::int64_t num_shared, double until, Placement placement)
    : num_shared_(num_shared), until_(until) {
  if (num_shared < 1 || num_shared >= heads) {
    throw ValueError(error_message("router", "num_shared",
                                   "1 to " + std::to_string(heads - 1) + " heads of which to learn which",
                                   std::to_string(num_shared)));
  }
  if (placement.device != kCpu) {
    throw DeviceError(error_message("router", "learn_shared_until", "0 on a GPU", std::to_string(until),
                                    "learn the shared heads on the CPU"));
  }
  placement.dtype = accumulate_dtype(placement.dtype);
  score_ = add_parameter("shared_mask.score", {heads}, placement);
  shared_ = add_parameter("shared_mask.shared", {heads}, placement);
}

bool SharedMasks::fixed() const {
  return std::ranges::any_of(numbers_of(shared_), [](double of_head) { return of_head != 0; });
}

void SharedMasks::set_progress(double share) {
  progress_ = share;
  if (learning() || fixed()) return;
  std::vector<double> shared(static_cast<std::size_t>(shared_.dim(0)));
  for (const std::int64_t head : best()) shared[static_cast<std::size_t>(head)] = 1;
  shared_.value().copy_from(tensor_of<double>(shared_.shape(), shared));
}

Variable SharedMasks::draw(Generator& generator) const {
  const std::int64_t heads = score_.dim(0);
  const double first = first_unmasked(heads), way = std::min(1.0, progress_ / (until_ / 2));
  const RandomKey key = generator.next();
  std::vector<double> draws;
  constexpr double kHalfStep = 0x1p-25;  // random_uniform returns k 2^-24 in [0, 1); a draw must not be 0
  for (std::int64_t h = 0; h < heads; ++h)
    draws.push_back(random_uniform(key, static_cast<std::uint64_t>(h)) + kHalfStep);
  return head_masks(score_, first + way * (static_cast<double>(num_shared_) - first), draws);
}

std::vector<std::int64_t> SharedMasks::best() const {
  const std::vector<double> scores = numbers_of(score_);
  std::vector<std::int64_t> heads(scores.size());
  std::iota(heads.begin(), heads.end(), 0);
  std::ranges::stable_sort(heads, [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  heads.resize(static_cast<std::size_t>(num_shared_));
  std::ranges::sort(heads);
  return heads;
}

std::vector<std::int64_t> SharedMasks::heads() const {
  if (!fixed()) return best();
  std::vector<std::int64_t> found;
  const std::vector<double> each = numbers_of(shared_);
  for (std::size_t head = 0; head < each.size(); ++head) {
    if (each[head] != 0) found.push_back(static_cast<std::int64_t>(head));
  }
  return found;
}

}  // namespace moh
