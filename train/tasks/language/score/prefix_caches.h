#pragma once

#include <optional>
#include <span>

#include "models/llm/llama.h"
#include "train/tasks/language/score/score_plan.h"

namespace moh {

/// The cache of the tokens with which a group's contexts begin; none if there are no such tokens.
std::optional<KvCache> make_prefix_cache(const Llama& model, const PrefixGroup& group,
                                         std::span<const PlannedText> texts);

/// A cache for a batch, with room for its contexts and tails, that begins with the prefix; it can be rewound.
KvCache make_batch_cache(const Llama& model, const ScoreBatch& batch, const std::optional<KvCache>& prefix);

/// The contexts of a batch from token `begin` on: [contexts, tokens] int32.
Tensor contexts_of(const ScoreBatch& batch, std::span<const PlannedText> texts, std::int64_t begin);

}  // namespace moh
