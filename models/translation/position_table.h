#pragma once

#include "models/translation/translation_config.h"

namespace moh {

/// The sinusoids of positions position_offset ... position_offset + max_positions - 1, [max_positions, D]
/// float64: of position p, sin(p f_i) for i = 0 ... D / 2 - 1, then cos(p f_i), with the frequencies of
/// SinusoidKind.
Tensor position_table(const TranslationConfig& config);

}  // namespace moh
