#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/attention/cache_append_kernels.h"
#include "ops/cpu/reduce.h"

namespace moh {

template <class Backend, class T>
void CacheAppendKernels<Backend, T>::append(const T* k, const T* v, T* k_cache, T* v_cache,
                                            const CacheTokens& at) {
  const std::int64_t heads = at.batch * at.heads;
  const std::size_t bytes = static_cast<std::size_t>(at.head_dim) * sizeof(T);
  parallel_for(heads, row_grain(heads, 2 * at.tokens * at.head_dim),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t b = i / at.heads, head = i % at.heads;
                   for (std::int64_t t = 0; t < at.tokens; ++t) {
                     const std::int64_t from = at.source(b, t, head), to = at.target(b, t, head);
                     __builtin_memcpy(static_cast<void*>(k_cache + to), k + from, bytes);
                     __builtin_memcpy(static_cast<void*>(v_cache + to), v + from, bytes);
                   }
                 }
               });
}

template struct CacheAppendKernels<cpu::MOH_ISA, float>;
template struct CacheAppendKernels<cpu::MOH_ISA, bfloat16>;
template struct CacheAppendKernels<cpu::MOH_ISA, double>;

}  // namespace moh
