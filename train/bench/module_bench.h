#pragma once

#include <cstdint>
#include <functional>

#include "train/bench/attention_cases.h"

namespace moh {

/// What `moh bench module` measures: a whole attention layer, router to output projection.
struct ModuleBenchOptions : AttentionCases {
  std::int64_t width = 768;
};

/// Multiplications of the layer's forward pass for one token that sees `visible` keys on average: queries and
/// output 2 a d D, keys and values 2 h d D, scores and values 2 a d n, and the router (h + 2) D when
/// `routed`.
double attention_module_multiplications(const ModuleBenchOptions& options, double visible,
                                        std::int64_t active_heads, bool routed);

/// Runs the measurements, handing each row over as soon as it is known. The dense layer has no router; a MoH
/// layer shares an eighth of the heads, and its learned router chooses the others. Full attention is the
/// layer of vision transformers (packed projection with bias), causal attention that of decoders (rotary
/// embedding, no bias). Throws ValueError naming the option that is out of range.
///
/// Of a row (attention_cases.h has the times): `op` is "attention_module" (dense) or "moh_attention_module";
/// `active` the share of the heads as rounded to a whole number; `ideal_forward_saving` dense multiplications
/// over those of the active heads; `achieved_of_ideal` (1 / forward_ratio) / ideal_forward_saving.
void run_module_bench(const ModuleBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
