#pragma once

#include <cstdint>

namespace moh {

/// Tokens [batch, tokens, heads, head_dim] and their slots in a cache [batch, heads, capacity, head_dim]:
/// slot `first` and those that follow.
struct CacheTokens {
  std::int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0, capacity = 0, first = 0;

  /// Offset in elements of a head of token number t, in the new tokens and in the cache.
  constexpr std::int64_t source(std::int64_t b, std::int64_t t, std::int64_t head) const {
    return ((b * tokens + t) * heads + head) * head_dim;
  }
  constexpr std::int64_t target(std::int64_t b, std::int64_t t, std::int64_t head) const {
    return ((b * heads + head) * capacity + first + t) * head_dim;
  }
};

template <class Backend, class T>
struct CacheAppendKernels {
  static void append(const T* k, const T* v, T* k_cache, T* v_cache, const CacheTokens& at);
};

}  // namespace moh
