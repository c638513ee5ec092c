#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/tasks/language/score/score_continuations.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

struct ContinueOptions {
  std::int64_t tokens = 256;      ///< of a continuation, at most
  std::vector<std::string> stop;  ///< texts before which it ends
  std::vector<TokenId> ends;      ///< tokens that end it, beside the tokenizer's end of document
};

/// The most probable continuations of prompts, of one token or more, token by token. Prompts of one length
/// are computed together, and what prompts begin with once, as by score_continuations(). A prompt that leaves
/// less room than options.tokens loses tokens at its beginning. Returns the texts, without a stop text and
/// what follows it, as valid UTF-8, or nothing if `stop` returned true. Throws ValueError for an empty prompt
/// and for options.tokens that leave no room.
std::optional<std::vector<std::string>> continue_prompts(
    const Llama& model, const Tokenizer& tokenizer, std::vector<std::vector<TokenId>> prompts,
    const ContinueOptions& options, const ScoreLimits& limits = {},
    StopScoring stop = [](const ScoreProgress&) { return false; });

}  // namespace moh
