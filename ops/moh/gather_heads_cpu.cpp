#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/gather_heads_kernels.h"

namespace moh {
namespace {

/// to = factor * from over a head.
template <class T>
[[gnu::always_inline]] inline void scale_row(const T* from, Acc<T> factor, T* to, std::int64_t d) {
  for_vectors_in<Acc<T>>(0, d, [=](auto at) { at.store(to, factor * at.load(from)); });
}

template <class T>
[[gnu::always_inline]] inline void clear_row(T* to, std::int64_t d) {
  __builtin_memset(static_cast<void*>(to), 0, static_cast<std::size_t>(d) * sizeof(T));
}

/// Calls with_slot(head, slot) or without_slot(head) for every head, in parallel; both are counted through
/// all tokens.
template <class WithSlot, class WithoutSlot>
[[gnu::always_inline]] inline void for_each_head(const SlotShape& s, const WithSlot& with_slot,
                                                 const WithoutSlot& without_slot) {
  parallel_for(s.tokens, row_grain(s.tokens, s.heads * s.head_dim),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n) {
                   const std::int32_t* numbers = s.numbers + n * s.slots;
                   std::int64_t slot = 0;
                   for (std::int64_t h = 0; h < s.heads; ++h) {
                     if (slot < s.slots && numbers[slot] == h) {
                       with_slot(n * s.heads + h, n * s.slots + slot++);
                     } else {
                       without_slot(n * s.heads + h);
                     }
                   }
                 }
               });
}

}  // namespace

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::gather(const T* x, T* y, const SlotShape& shape) {
  const std::int64_t rows = shape.tokens * shape.slots, d = shape.head_dim;
  parallel_for(rows, row_grain(rows, d), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = x + (i / shape.slots * shape.heads + shape.numbers[i]) * d;
      __builtin_memcpy(static_cast<void*>(y + i * d), from, static_cast<std::size_t>(d) * sizeof(T));
    }
  });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const SlotShape& shape) {
  const std::int64_t d = shape.head_dim;
  for_each_head(
      shape,
      [=](std::int64_t head, std::int64_t slot) {
        scale_row(y + slot * d, gates ? gates[head] : Acc<T>(1), x + head * d, d);
      },
      [=](std::int64_t head) { clear_row(x + head * d, d); });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                      Acc<T>* d_gates, const SlotShape& shape) {
  using A = Acc<T>;
  const std::int64_t d = shape.head_dim;
  for_each_head(
      shape,
      [=](std::int64_t head, std::int64_t slot) {
        const T *from = dx + head * d, *output = y + slot * d;
        T* const to = dy + slot * d;
        const A gate = gates[head];
        Vec<A> sum{};
        for_vectors_in<A>(0, d, [&](auto at) {
          const Vec<A> gradient = at.load(from);
          sum += gradient * at.load(output);
          at.store(to, gate * gradient);
        });
        d_gates[head] = sum_lanes<A>(sum);
      },
      [=](std::int64_t head) { d_gates[head] = A(0); });
}

template struct GatherHeadsKernels<cpu::MOH_ISA, float>;
template struct GatherHeadsKernels<cpu::MOH_ISA, bfloat16>;
template struct GatherHeadsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
