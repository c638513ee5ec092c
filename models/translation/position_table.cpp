#include "models/translation/position_table.h"

#include <cmath>

#include "core/parallel.h"

namespace moh {

Tensor position_table(const TranslationConfig& c) {
  constexpr double kPeriod = 10000;
  const std::int64_t half = c.hidden / 2;
  const std::int64_t steps = c.sinusoids == SinusoidKind::kFairseq ? half - 1 : half;
  Tensor table = empty({c.max_positions, c.hidden}, DType::kFloat64);
  parallel_for(c.max_positions, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      double* to = table.data<double>() + p * c.hidden;
      for (std::int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(kPeriod, -static_cast<double>(i) / static_cast<double>(steps));
        const double angle = static_cast<double>(c.position_offset + p) * frequency;
        to[i] = std::sin(angle);
        to[half + i] = std::cos(angle);
      }
    }
  });
  return table;
}

}  // namespace moh
