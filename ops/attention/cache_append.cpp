#include "ops/attention/cache_append.h"

#include <string>

#include "ops/attention/cache_append_kernels.h"
#include "ops/op.h"

namespace moh {

void append_to_cache(const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
                     std::int64_t length) {
  constexpr auto kOp = "append_to_cache";
  const Variable vk(k), vv(v), ck(k_cache), cv(v_cache);
  Check(kOp).floating("k", vk).rank("k", vk, 4).like("k_cache", ck, "k", vk).rank("k_cache", ck, 4);
  const std::int64_t capacity = k_cache.dim(2);
  Check(kOp)
      .shape("k_cache", ck, {k.dim(0), k.dim(2), capacity, k.dim(3)}, "batch, heads and head width of k")
      .like("v", vv, "k", vk)
      .shape("v", vv, k.shape(), "that of k")
      .like("v_cache", cv, "k", vk)
      .shape("v_cache", cv, k_cache.shape(), "that of k_cache")
      .require(length >= 0 && k.dim(1) <= capacity - length, "tokens",
               "at most the capacity of " + std::to_string(capacity), std::to_string(length + k.dim(1)));
  const CacheTokens at{k.dim(0), k.dim(1), k.dim(2), k.dim(3), capacity, length};
  run_kernel(kOp, k, [&]<class Backend, class T>() {
    CacheAppendKernels<Backend, T>::append(k.data<T>(), v.data<T>(), k_cache.data<T>(), v_cache.data<T>(),
                                           at);
  });
}

}  // namespace moh
