#include "models/llm/kv_cache.h"

#include <string>

#include "core/error.h"

namespace moh {

void LayerCache::append(const Tensor& new_k, const Tensor& new_v) {
  const std::int64_t added = new_k.dim(1), capacity = k.dim(1);
  if (length + added > capacity) {
    throw ShapeError(error_message("kv cache", "tokens", "at most " + std::to_string(capacity),
                                   std::to_string(length + added)));
  }
  for (std::int64_t b = 0; b < k.dim(0); ++b) {
    k.select(b).slice(length, length + added).copy_from(new_k.select(b));
    v.select(b).slice(length, length + added).copy_from(new_v.select(b));
  }
  length += added;
}

}  // namespace moh
