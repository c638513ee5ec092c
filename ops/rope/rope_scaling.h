#pragma once

#include <cstdint>
#include <vector>

namespace moh {

/// How rotary frequencies are scaled for contexts longer than those of the original training.
enum class RopeScalingKind {
  kNone,    ///< frequencies as they are
  kLinear,  ///< all divided by `factor` (position interpolation)
  kLlama3,  ///< divided by `factor` for long wavelengths, kept for short ones, a blend between (LLaMA 3.1)
};

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1;
  // Of kLlama3 alone: wavelengths above original_positions / low_freq_factor tokens are long, those below
  // original_positions / high_freq_factor are short.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_positions = 8192;  ///< context length in tokens before the scaling

  bool operator==(const RopeScaling&) const = default;
};

/// The d/2 frequencies, in radians per token, of the rotary embedding of heads of width d = head_dim:
/// f_i = theta^(-2i / d), then scaled. kLlama3, with the wavelength w = 2 pi / f_i and
/// s = (original_positions / w - low_freq_factor) / (high_freq_factor - low_freq_factor) clamped to [0, 1]:
/// f_i (s + (1 - s) / factor), as in the rope type "llama3" of Hugging Face's transformers. Throws ShapeError
/// for an odd head_dim, ValueError for theta <= 0, factor < 1, and, with kLlama3, original_positions < 1 or
/// factors that are not 0 < low_freq_factor < high_freq_factor.
std::vector<double> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

}  // namespace moh
