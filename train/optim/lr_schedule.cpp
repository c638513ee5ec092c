#include "train/optim/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace moh {

double LrSchedule::at(std::int64_t t) const {
  if (t < warmup_steps) {
    return warmup_start + static_cast<double>(t) * (peak - warmup_start) / static_cast<double>(warmup_steps);
  }
  if (kind == Kind::kConstant) return peak;
  if (t >= decay_steps) return minimum;
  const std::int64_t start = kind == Kind::kCosine ? warmup_steps : 0;
  const double u = static_cast<double>(t - start) / static_cast<double>(decay_steps - start);
  return minimum + 0.5 * (peak - minimum) * (1.0 + std::cos(std::numbers::pi * u));
}

}  // namespace moh
