#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/llm/kv_cache.h"
#include "train/apps/serve/token_logprobs.h"

namespace moh {

/// Tokens of a prompt that follow one another, and what the model computed of them: keys and values, and, if
/// somebody asked for them, the scores of the first of them. All of it is a function of the tokens and of
/// those before them.
class PrefixPage {
 public:
  /// No tokens.
  PrefixPage() = default;
  /// Copies of rows [begin, begin + tokens) of what a cache took last (KvCache::keep_last).
  PrefixPage(std::span<const TokenId> tokens, const KvCache& computed, std::int64_t begin);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  /// Appends the keys and values of tokens [begin, end) to a cache of one text.
  void append_to(KvCache& cache, std::int64_t begin, std::int64_t end) const;

  /// Number of first tokens whose scores are here with `top` alternatives or more.
  std::int64_t scored(std::int64_t top) const;
  /// Keeps the scores of the first tokens, with `top` alternatives, if they say more than those that are
  /// here.
  void keep_scores(std::span<const TokenLogprobs> scores, std::int64_t top);
  /// The score of token number `token`, one of scored(top), with the `top` most probable alternatives.
  TokenLogprobs score_of(std::int64_t token, std::int64_t top) const;

  /// Memory of tokens, keys, values and scores.
  std::int64_t bytes() const;
  /// bytes() of `tokens` tokens without scores in a cache like this one.
  static std::int64_t bytes_of(std::int64_t tokens, const KvCache& like);

 private:
  std::vector<TokenId> tokens_;
  std::vector<KvRows> layers_;         // [tokens, G, d] each
  std::vector<TokenLogprobs> scores_;  // of the first tokens
  std::vector<std::int64_t> tops_;     // alternatives that they were made with; a small vocabulary has fewer
};

}  // namespace moh
