#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/shape/repeat_heads_kernels.h"

namespace moh {

template <class Backend, class T>
void RepeatHeadsKernels<Backend, T>::forward(const T* x, T* y, RepeatedHeads s) {
  const std::int64_t d = s.head_dim, from_row = (s.first + s.repeated) * d,
                     to_row = (s.first + s.repeated * s.times) * d;
  parallel_for(s.tokens, row_grain(s.tokens, to_row), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* from = x + t * from_row;
      T* to = y + t * to_row;
      for (std::int64_t i = 0; i < s.first * d; ++i) *to++ = *from++;
      for (std::int64_t g = 0; g < s.repeated; ++g, from += d) {
        for (std::int64_t copy = 0; copy < s.times; ++copy) {
          for (std::int64_t i = 0; i < d; ++i) *to++ = from[i];
        }
      }
    }
  });
}

template <class Backend, class T>
void RepeatHeadsKernels<Backend, T>::backward(const T* dy, T* dx, RepeatedHeads s) {
  using A = Acc<T>;
  const std::int64_t d = s.head_dim, to_row = (s.first + s.repeated) * d,
                     from_row = (s.first + s.repeated * s.times) * d;
  parallel_for(s.tokens, row_grain(s.tokens, from_row), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* from = dy + t * from_row;
      T* to = dx + t * to_row;
      for (std::int64_t i = 0; i < s.first * d; ++i) *to++ = *from++;
      for (std::int64_t g = 0; g < s.repeated; ++g, from += s.times * d) {
        for (std::int64_t i = 0; i < d; ++i) {
          A sum = 0;
          for (std::int64_t copy = 0; copy < s.times; ++copy) sum += A(from[copy * d + i]);
          *to++ = static_cast<T>(sum);
        }
      }
    }
  });
}

template struct RepeatHeadsKernels<cpu::MOH_ISA, float>;
template struct RepeatHeadsKernels<cpu::MOH_ISA, bfloat16>;
template struct RepeatHeadsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
