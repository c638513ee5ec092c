#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/tasks/language/score/score_continuations.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The token before a text that has none before it, as lm-evaluation-harness chooses it: the one that texts
/// begin with, else the `bos_token` of the tokenizer's configuration, else the one that ends documents.
/// Throws DataError for a tokenizer that has none of them.
TokenId prefix_token(const Tokenizer& tokenizer);

/// The tokens of a context, with those that texts begin with; may be none.
std::vector<TokenId> encode_context(const Tokenizer& tokenizer, std::string_view context);

/// A continuation of a context in tokens, as lm-evaluation-harness has them: both are encoded together, and
/// the continuation is what follows as many tokens as the context alone has, its white space at the end being
/// the continuation's. Before an empty context stands the prefix token. Throws DataError for a continuation
/// without a token of its own.
ScoreRequest encode_pair(const Tokenizer& tokenizer, std::string_view context, std::string_view continuation);

/// Requests that score each token of a text once, as the harness does: windows of as many tokens as the model
/// has positions, without overlap, each after the last token of the one before; the last window sees what
/// fits before it. Throws DataError for an empty text.
std::vector<ScoreRequest> encode_windows(const Tokenizer& tokenizer, std::string_view text,
                                         std::int64_t positions);

}  // namespace moh
