#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "models/llm/kv_cache.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// KV caches of prompts whose texts are done, for prompts that begin alike: what is in place need not be
/// copied.
class SpareCaches {
 public:
  /// Keeps at most `most_bytes`.
  explicit SpareCaches(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// Keeps a cache that begins with a prompt's tokens, unless some of these have left it (a window), and
  /// drops those that were kept first where it is too much.
  void keep(std::span<const TokenId> prompt, KvCache cache);
  /// The cache with room for `capacity` tokens that begins with most of a prompt, rewound to what it has of
  /// that; none if there is no such cache.
  std::optional<KvCache> take(std::span<const TokenId> prompt, std::int64_t capacity);
  /// Drops the caches that were kept first until the rest has room for `tokens` tokens at most.
  void shrink(std::int64_t tokens);

 private:
  struct Spare {
    std::vector<TokenId> tokens;
    KvCache cache;
  };
  void drop_first();

  const std::int64_t most_bytes_;
  std::list<Spare> spares_;              // what was kept last comes first
  std::int64_t tokens_ = 0, bytes_ = 0;  // that all of them have room for, and take
};

}  // namespace moh
