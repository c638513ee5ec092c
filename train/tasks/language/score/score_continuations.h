#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/function_ref.h"
#include "train/tasks/language/score/score_plan.h"

namespace moh {

class Llama;

/// A text whose end is scored: the continuation of a context. Both have a token or more.
struct ScoreRequest {
  std::vector<TokenId> context;
  std::vector<TokenId> continuation;
  /// Whether the most probable token that follows the continuation is scored, too.
  bool with_next = false;
};

/// What a model says of one token of a continuation. Natural logarithms of probabilities over the model's
/// whole vocabulary, in float32, finite.
struct TokenScore {
  float log_probability = 0;
  TokenId best = 0;  ///< the most probable token in its place
  float best_log_probability = 0;
};

/// The score of a continuation.
struct ContinuationScore {
  double log_likelihood = 0;        ///< sum of the log-probabilities of its tokens, in their order
  bool is_greedy = true;            ///< whether each of them is the most probable one
  std::vector<TokenScore> tokens;   ///< one for each of its tokens
  std::optional<TokenScore> next;   ///< with_next: the most probable token after it
  std::int64_t dropped_tokens = 0;  ///< of the beginning of the context, as the model has no more positions
};

/// Tokens of forward passes that are done, and of all.
struct ScoreProgress {
  std::int64_t done = 0, total = 0;
};
/// Called before each forward pass; returns whether to stop.
using StopScoring = FunctionRef<bool(const ScoreProgress&)>;

/// Scores continuations of contexts; ids below the model's vocabulary. A context is computed once for all of
/// its continuations, and so is what several contexts begin with, in a KV cache (plan_texts). A text that is
/// longer than the model's positions loses tokens at its beginning; its last token needs none. Which
/// requests are scored together changes results by rounding only. Returns the scores in the order of the
/// requests, or nothing if `stop` returned true. Throws ValueError for an empty context or continuation and
/// for a continuation that is longer than the positions; NumericError for logits that are not finite.
std::optional<std::vector<ContinuationScore>> score_continuations(
    const Llama& model, std::vector<ScoreRequest> requests, const ScoreLimits& limits = {},
    StopScoring stop = [](const ScoreProgress&) { return false; });

}  // namespace moh
