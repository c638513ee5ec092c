#include "models/llm/kv_cache.h"

#include "ops/attention/cache_append.h"

namespace moh {

void LayerCache::append(const Tensor& new_k, const Tensor& new_v) {
  append_to_cache(new_k, new_v, k, v, length);
  length += new_k.dim(1);
}

}  // namespace moh
