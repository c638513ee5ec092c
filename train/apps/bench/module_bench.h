#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "models/layers/moh_config.h"
#include "train/apps/bench/attention_cases.h"

namespace moh {

/// Options of `moh bench module`, which measures a whole attention layer, router and projections included.
struct ModuleBenchOptions : AttentionCases {
  std::int64_t width = 768;
};

/// Multiplications in the layer's forward pass per token, with n = `visible` keys attended to on average,
/// h heads of width d, a of them active, g KV heads, and hidden size D: query and output projection 2 a d D,
/// key and value projection 2 g d D, scores and weighted values 2 a d n, and the router (h + 2) D unless
/// `routed` is empty (dense). With routed keys, keys and values are projected for the active heads, 2 a d D,
/// and scores and weighted values are those of pairs_of_routed_keys().
double attention_module_multiplications(const ModuleBenchOptions& options, double visible,
                                        std::int64_t active_heads, std::optional<RoutedRows> routed);

/// Runs the benchmark and passes each row to `on_row` as soon as it is measured. The dense layer has no
/// router; in a MoH layer an eighth of the heads is shared and a learned router selects the others. Full
/// attention is the layer of vision transformers (packed QKV projection with bias), causal attention that of
/// decoders (rotary embedding, no bias), of which within_groups and routed_keys (positions: head) measure
/// other forms. Throws ValueError naming the option that is out of range.
///
/// Fields of a row (see attention_cases.h for the times): `op`, "attention_module" (dense),
/// "moh_attention_module", "moh_within_groups_module" or "moh_routed_keys_module"; `active`, the share of
/// heads after rounding to a whole number of heads; `ideal_forward_saving`, multiplications of the dense
/// layer / multiplications with the active heads; `achieved_of_ideal`, (1 / forward_ratio) /
/// ideal_forward_saving.
void run_module_bench(const ModuleBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
