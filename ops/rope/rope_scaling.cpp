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

void check_scaling(const RopeScaling& s, std::int64_t head_dim, double theta) {
  if (s.kind == RopeScalingKind::kNone) return;
  require(s.factor >= 1, "factor", "1 or more", s.factor);
  if (s.kind == RopeScalingKind::kLinear) return;
  require(s.original_positions >= 1, "original_positions", "1 or more",
          static_cast<double>(s.original_positions));
  if (s.kind == RopeScalingKind::kLlama3) {
    require(s.low_freq_factor > 0, "low_freq_factor", "a number above 0", s.low_freq_factor);
    require(s.high_freq_factor > s.low_freq_factor, "high_freq_factor", "more than low_freq_factor",
            s.high_freq_factor);
  } else if (s.kind == RopeScalingKind::kYarn) {
    require(theta > 1, "theta", "more than 1 with yarn", theta);
    require(s.beta_slow > 0, "beta_slow", "a number above 0", s.beta_slow);
    require(s.beta_fast > s.beta_slow, "beta_fast", "more than beta_slow", s.beta_fast);
    require(s.attention_factor >= 0, "attention_factor", "0 or more", s.attention_factor);
  } else {
    require(head_dim != 2, "head_dim", "4 or more with dynamic scaling", static_cast<double>(head_dim));
  }
}

/// The share s of a frequency that is kept; 1 - s is divided by the factor.
double kept_share_llama3(double frequency, const RopeScaling& s) {
  const double wavelengths = static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
  return std::clamp((wavelengths - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
}

/// The pairs between which YaRN blends, first and last.
struct YarnRange {
  double low, high;
};

YarnRange yarn_range(std::int64_t head_dim, double theta, const RopeScaling& s) {
  const auto width = static_cast<double>(head_dim);
  const auto pair_that_turns = [&](double times) {
    const double tokens = static_cast<double>(s.original_positions) / (2 * std::numbers::pi * times);
    return width * std::log(tokens) / (2 * std::log(theta));
  };
  double low = pair_that_turns(s.beta_fast), high = pair_that_turns(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  constexpr double kLeast = 0.001;  // that of transformers, which divides by the length of the range
  return {low, low == high ? high + kLeast : high};
}

double blended(double frequency, double kept, const RopeScaling& s) {
  return frequency * (kept + (1 - kept) / s.factor);
}

/// kDynamic's base for a sequence of `length` tokens.
double dynamic_theta(double theta, std::int64_t head_dim, const RopeScaling& s, std::int64_t length) {
  const auto width = static_cast<double>(head_dim);
  const double stretch =
      static_cast<double>(std::max(length, s.original_positions)) / static_cast<double>(s.original_positions);
  return theta * std::pow(s.factor * stretch - (s.factor - 1), width / (width - 2));
}

}  // namespace

std::vector<double> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling,
                                     std::int64_t length) {
  Check("rope_table")
      .require(head_dim >= 0 && head_dim % 2 == 0, "head_dim", "an even number", std::to_string(head_dim))
      .positive("theta", theta);
  check_scaling(scaling, head_dim, theta);
  if (scaling.kind == RopeScalingKind::kDynamic) theta = dynamic_theta(theta, head_dim, scaling, length);
  const YarnRange range =
      scaling.kind == RopeScalingKind::kYarn ? yarn_range(head_dim, theta, scaling) : YarnRange{};
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const auto pair = static_cast<double>(i);
    double f = std::pow(theta, -2 * pair / static_cast<double>(head_dim));
    if (scaling.kind == RopeScalingKind::kLinear) f /= scaling.factor;
    if (scaling.kind == RopeScalingKind::kLlama3) f = blended(f, kept_share_llama3(f, scaling), scaling);
    if (scaling.kind == RopeScalingKind::kYarn)
      f = blended(f, 1 - std::clamp((pair - range.low) / (range.high - range.low), 0.0, 1.0), scaling);
    frequencies.push_back(f);
  }
  return frequencies;
}

double rope_attention_factor(const RopeScaling& scaling) {
  if (scaling.kind != RopeScalingKind::kYarn) return 1;
  return scaling.attention_factor > 0 ? scaling.attention_factor : 0.1 * std::log(scaling.factor) + 1;
}

}  // namespace moh
