#include "train/optim/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace moh {

double LrSchedule::at(std::int64_t t) const {
  if (t < warmup) {
    return warmup_start + static_cast<double>(t) * (peak - warmup_start) / static_cast<double>(warmup);
  }
  if (kind == Kind::kConstant) return peak;
  if (t >= decay) return minimum;
  const std::int64_t start = kind == Kind::kCosine ? warmup : 0;
  const double u = static_cast<double>(t - start) / static_cast<double>(decay - start);
  return minimum + 0.5 * (peak - minimum) * (1.0 + std::cos(std::numbers::pi * u));
}

}  // namespace moh
