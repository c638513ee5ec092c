#include "core/cuda/tag.h"
#include "core/dtype.h"
#include "ops/attention/cache_append_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

/// Each thread copies one Piece of a head of k and of v. Piece is T, or 16 bytes of T; sizes in
/// `at` count pieces.
template <class Piece>
struct AppendPiece {
  const Piece *k, *v;
  Piece *k_cache, *v_cache;
  CacheTokens at;

  MOH_DEVICE void operator()(std::int64_t piece) const {
    const std::int64_t row = piece / at.head_dim, in_head = piece % at.head_dim;
    const std::int64_t head = row % at.heads, token = row / at.heads;
    const std::int64_t to = at.target(token / at.tokens, token % at.tokens, head) + in_head;
    k_cache[to] = k[piece];
    v_cache[to] = v[piece];
  }
};

template <class Piece, class T>
void launch_append(const T* k, const T* v, T* k_cache, T* v_cache, CacheTokens at) {
  at.head_dim /= static_cast<std::int64_t>(sizeof(Piece) / sizeof(T));
  cuda::launch_each(
      "append_to_cache", at.batch * at.tokens * at.heads * at.head_dim,
      AppendPiece<Piece>{reinterpret_cast<const Piece*>(k), reinterpret_cast<const Piece*>(v),
                         reinterpret_cast<Piece*>(k_cache), reinterpret_cast<Piece*>(v_cache), at});
}

}  // namespace

template <class Backend, class T>
void CacheAppendKernels<Backend, T>::append(const T* k, const T* v, T* k_cache, T* v_cache,
                                            const CacheTokens& at) {
  bool whole = at.head_dim % Pack<T>::kCount == 0;
  for (const T* array : {k, v, static_cast<const T*>(k_cache), static_cast<const T*>(v_cache)})
    whole = whole && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  if (whole) {
    launch_append<Pack<T>>(k, v, k_cache, v_cache, at);
  } else {
    launch_append<T>(k, v, k_cache, v_cache, at);
  }
}

template struct CacheAppendKernels<Cuda, float>;
template struct CacheAppendKernels<Cuda, bfloat16>;

}  // namespace moh
