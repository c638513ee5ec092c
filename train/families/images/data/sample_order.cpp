#include "train/families/images/data/sample_order.h"

#include <string>

#include "core/error.h"
#include "core/random.h"
#include "train/trainer/task/data/index_permutation.h"

namespace moh {

namespace {

/// Apart from the streams of initialisation, of training steps (Generator) and of augmentation.
constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 54;

/// DeiT's sampler rounds the length of an epoch down to this.
constexpr std::int64_t kRounded = 256;

}  // namespace

SampleOrder::SampleOrder(std::int64_t pictures, std::int64_t step_samples, std::uint64_t seed,
                         const SampleOrderOptions& options)
    : pictures_(pictures), step_samples_(step_samples), seed_(seed), options_(options) {
  const bool plain = options.repeats == 1 && options.groups == 1;
  const bool sound = pictures >= 1 && step_samples >= 1 && options.repeats >= 1 && options.groups >= 1 &&
                     step_samples % options.groups == 0;
  if (!sound) {
    throw ValueError(error_message("data", "samples of a step, repeats and groups",
                                   "at least 1 each, and groups of equal size",
                                   std::to_string(step_samples) + ", " + std::to_string(options.repeats) +
                                       " and " + std::to_string(options.groups)));
  }
  const std::int64_t all =
      options.repeats > 1 && pictures >= kRounded ? pictures / kRounded * kRounded : pictures;
  samples_per_epoch_ = all / step_samples * step_samples;
  if (samples_per_epoch_ > 0) return;
  if (!plain) {
    throw ValueError(error_message("data", "training pictures with repeats or groups",
                                   "enough for a step of " + std::to_string(step_samples),
                                   std::to_string(all)));
  }
  samples_per_epoch_ = pictures;
}

std::int64_t SampleOrder::picture_of(std::int64_t sample) const {
  MOH_CHECK(sample >= 0, "SampleOrder: negative sample");
  const std::int64_t index = index_of(sample), groups = options_.groups, each = group_samples();
  std::int64_t place = index;
  if (groups > 1) {
    const std::int64_t step = index / step_samples_, within = index % step_samples_;
    place = (step * each + within % each) * groups + within / each;
  }
  const IndexPermutation order(pictures_,
                               {seed_, kOrderStream | static_cast<std::uint64_t>(epoch_of(sample))});
  return order(place / options_.repeats % pictures_);
}

}  // namespace moh
