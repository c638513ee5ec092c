#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "train/tokenizers/token_id.h"

namespace moh {

/// A token and its log-probability.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// The log-probabilities of a token of a text.
struct TokenLogprobs {
  TokenId id = 0;
  /// The log-probability of the token after the tokens before it; none for the first of a text.
  std::optional<float> logprob;
  std::vector<TokenLogprob> top;  ///< the most probable tokens in its place, most probable first
};

/// The score of token `id` among `logits` [V], with the `top` most probable tokens: natural logarithms of the
/// softmax over all of the vocabulary, at temperature 1, summed in float64 and rounded to float32 once, so
/// that a token has one value wherever it stands. Among equal ones the lower id comes first. Values are
/// finite: those of logits of minus infinity are the lowest float. Throws NumericError for logits without a
/// softmax (NaN).
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId id, std::int64_t top);

}  // namespace moh
