#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/tokenizers/token_id.h"

namespace moh {

/// A context, of a token or more, and the number of tokens that are computed after it.
struct PlannedText {
  std::span<const TokenId> context;
  std::int64_t tail = 0;
};

/// How much is computed at a time.
struct ScoreLimits {
  std::int64_t batch_tokens = 4096;    ///< of one forward pass, unless a single text is longer
  std::int64_t cached_tokens = 32768;  ///< of all sequences of a KV cache, likewise
  std::int64_t shared_tokens = 32;     ///< contexts that begin alike share no fewer tokens than that
};

/// Texts, by index, whose contexts are equal.
struct ContextGroup {
  std::vector<std::size_t> texts;  ///< the longest tail first
};

/// Contexts of one length that are computed together, after a prefix that all of them have.
struct ScoreBatch {
  std::vector<ContextGroup> groups;
  std::int64_t context_tokens = 0;  ///< of each context, without the prefix
  std::int64_t longest_tail = 0;    ///< tokens that follow a context, at most
};

/// Batches whose contexts begin with the same tokens, which are computed once.
struct PrefixGroup {
  std::int64_t prefix_tokens = 0;
  std::vector<ScoreBatch> batches;
};

/// In which order, and together with what, texts are computed: a function of the texts and limits alone.
/// Contexts are sorted, so that those that begin with the same tokens (the examples of a few-shot prompt) are
/// neighbours; a run of neighbours shares what all of them begin with where that saves tokens. Contexts of a
/// run that have the same length make a batch, so that no sequence is padded before the tails follow. The
/// texts' contexts must outlive the call only.
std::vector<PrefixGroup> plan_texts(std::span<const PlannedText> texts, const ScoreLimits& limits);

/// The tokens of all forward passes of the plan.
std::int64_t computed_tokens(std::span<const PrefixGroup> plan, std::span<const PlannedText> texts);
/// Those of a batch without its prefix.
std::int64_t computed_tokens(const ScoreBatch& batch, std::span<const PlannedText> texts);

}  // namespace moh
