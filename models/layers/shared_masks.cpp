#include "models/layers/shared_masks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "ops/moh/head_masks.h"

namespace moh {

namespace {

std::vector<double> numbers_of(const Variable& x) {
  const Tensor wide = x.value().to(kCpu).to(DType::kFloat64);
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
  placement.dtype = accumulate_dtype(placement.dtype);
  score_ = add_parameter("shared_mask.score", {heads}, placement);
  shared_ = add_parameter("shared_mask.shared", {heads}, placement);
  unmasked_ = empty({}, DType::kFloat64, placement.device);
  expect_unmasked();
}

bool SharedMasks::fixed() const {
  if (known_fixed_) return *known_fixed_;
  return std::ranges::any_of(numbers_of(shared_), [](double of_head) { return of_head != 0; });
}

void SharedMasks::expect_unmasked() {
  const double first = first_unmasked(score_.dim(0)), way = std::min(1.0, progress_ / (until_ / 2));
  const double count = first + way * (static_cast<double>(num_shared_) - first);
  unmasked_.copy_from(tensor_of<double>({}, {count}));
}

bool SharedMasks::set_progress(double share) {
  progress_ = share;
  if (score_.device() != kCpu) known_fixed_ = fixed();
  if (fixed()) return false;
  if (learning()) {
    expect_unmasked();
    return false;
  }
  std::vector<double> shared(static_cast<std::size_t>(shared_.dim(0)));
  for (const std::int64_t head : best()) shared[static_cast<std::size_t>(head)] = 1;
  shared_.value().copy_from(tensor_of<double>(shared_.shape(), shared));
  if (known_fixed_) known_fixed_ = true;
  return true;
}

Variable SharedMasks::draw(Generator& generator) const {
  return head_masks(score_, unmasked_, generator.next());
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
