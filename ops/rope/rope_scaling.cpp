#include "ops/rope/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/error.h"
#include "ops/op.h"

namespace moh {

namespace {

void require(bool condition, std::string_view what, std::string_view expected, double found) {
  if (!condition) throw ValueError(error_message("rope_table", what, expected, std::to_string(found)));
}

void check_scaling(const RopeScaling& s) {
  if (s.kind == RopeScalingKind::kNone) return;
  require(s.factor >= 1, "factor", "1 or more", s.factor);
  if (s.kind == RopeScalingKind::kLinear) return;
  require(s.low_freq_factor > 0, "low_freq_factor", "a number above 0", s.low_freq_factor);
  require(s.high_freq_factor > s.low_freq_factor, "high_freq_factor", "more than low_freq_factor",
          s.high_freq_factor);
  require(s.original_positions >= 1, "original_positions", "1 or more",
          static_cast<double>(s.original_positions));
}

double scaled(double frequency, const RopeScaling& s) {
  switch (s.kind) {
    case RopeScalingKind::kNone:
      return frequency;
    case RopeScalingKind::kLinear:
      return frequency / s.factor;
    case RopeScalingKind::kLlama3: {
      const double wavelengths =
          static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
      const double kept =
          std::clamp((wavelengths - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
      return frequency * (kept + (1 - kept) / s.factor);
    }
  }
  fail_check(__FILE__, __LINE__, "kind", "unknown RopeScalingKind");
}

}  // namespace

std::vector<double> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  Check("rope_table")
      .require(head_dim >= 0 && head_dim % 2 == 0, "head_dim", "an even number", std::to_string(head_dim))
      .positive("theta", theta);
  check_scaling(scaling);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    frequencies.push_back(scaled(std::pow(theta, -exponent), scaling));
  }
  return frequencies;
}

}  // namespace moh
