#pragma once

#include <cstdint>
#include <vector>

namespace moh {

/// How rotary frequencies are scaled for contexts longer than those of the original training.
enum class RopeScalingKind {
  kNone,     ///< frequencies as they are
  kLinear,   ///< all divided by `factor` (position interpolation)
  kLlama3,   ///< divided by `factor` for long wavelengths, kept for short ones, a blend between (LLaMA 3.1)
  kYarn,     ///< likewise by dimension, and longer queries and keys (YaRN, arXiv 2309.00071)
  kDynamic,  ///< a larger base for sequences longer than the original context (dynamic NTK)
};

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1;
  // For kLlama3 alone: wavelengths above original_positions / low_freq_factor tokens are long, those below
  // original_positions / high_freq_factor are short.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_positions = 8192;  ///< context length in tokens before the scaling
  // For kYarn alone: frequencies that turn more than beta_fast times within original_positions are kept,
  // those that turn less than beta_slow times are divided.
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;  ///< of cosines and sines; 0: 0.1 ln(factor) + 1
  bool truncate = true;         ///< the blend begins and ends at whole dimensions

  bool operator==(const RopeScaling&) const = default;
};

/// The d/2 frequencies, in radians per token, of the rotary embedding of heads of width d = head_dim:
/// f_i = theta^(-2i / d), then scaled as in the rope types of Hugging Face's transformers.
/// kLlama3, with the wavelength w = 2 pi / f_i and s = (original_positions / w - low_freq_factor) /
/// (high_freq_factor - low_freq_factor) clamped to [0, 1]: f_i (s + (1 - s) / factor).
/// kYarn, with c(r) = d ln(original_positions / (2 pi r)) / (2 ln theta), the dimension that turns r times,
/// low = max(c(beta_fast), 0), high = min(c(beta_slow), d - 1), which `truncate` rounds away from each other
/// before, and s = 1 - (i - low) / (high - low) clamped to [0, 1]: f_i (s + (1 - s) / factor).
/// kDynamic, for a sequence of `length` tokens, with L = max(length, original_positions) and
/// theta' = theta (factor L / original_positions - (factor - 1))^(d / (d - 2)): theta'^(-2i / d).
/// Throws ShapeError for an odd head_dim, ValueError for theta <= 0, factor < 1, and values that the kind
/// cannot use: original_positions < 1, factors that are not 0 < low_freq_factor < high_freq_factor, a
/// head_dim of 2 with kDynamic, theta <= 1 or betas that are not 0 < beta_slow < beta_fast with kYarn.
std::vector<double> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {},
                                     std::int64_t length = 0);

/// The factor of the cosines and sines, and so of queries and keys alike: 1 unless kYarn.
double rope_attention_factor(const RopeScaling& scaling);

}  // namespace moh
