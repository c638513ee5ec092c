#include "ops/moh/gather_heads_kernels.h"
#include "ops/moh/head_rows_cpu.h"

namespace moh {
namespace {

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
  const std::int64_t d = shape.head_dim;
  for_each_head(
      shape,
      [=](std::int64_t head, std::int64_t slot) {
        d_gates[head] = gated_row_backward(dx + head * d, y + slot * d, gates[head], dy + slot * d, d);
      },
      [=](std::int64_t head) { d_gates[head] = Acc<T>(0); });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::append_sum(const T* y, const Acc<T>* gates, T* z,
                                                const SlotShape& shape) {
  using A = Acc<T>;
  const std::int64_t d = shape.head_dim;
  parallel_for(
      shape.tokens, row_grain(shape.tokens, shape.slots * d), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const T* of_slots = y + n * shape.slots * d;
          T* to = z + n * (shape.slots + 1) * d;
          __builtin_memcpy(static_cast<void*>(to), of_slots,
                           static_cast<std::size_t>(shape.slots * d) * sizeof(T));
          for_vectors_in<A>(0, d, [=](auto at) {
            Vec<A> sum{};
            for (std::int64_t s = 0; s < shape.slots; ++s)
              sum += gates[n * shape.heads + shape.numbers[n * shape.slots + s]] * at.load(of_slots + s * d);
            at.store(to + shape.slots * d, sum);
          });
        }
      });
}

template <class Backend, class T>
void GatherHeadsKernels<Backend, T>::append_sum_backward(const T* dz, const T* y, const Acc<T>* gates, T* dy,
                                                         Acc<T>* d_gates, const SlotShape& shape) {
  const std::int64_t d = shape.head_dim;
  for_each_head(
      shape,
      [=](std::int64_t head, std::int64_t slot) {
        const T* of_token = dz + head / shape.heads * (shape.slots + 1) * d;
        const T* own = of_token + slot % shape.slots * d;
        d_gates[head] =
            gated_row_backward(of_token + shape.slots * d, y + slot * d, gates[head], dy + slot * d, d, own);
      },
      [=](std::int64_t head) { d_gates[head] = Acc<T>(0); });
}

template struct GatherHeadsKernels<cpu::MOH_ISA, float>;
template struct GatherHeadsKernels<cpu::MOH_ISA, bfloat16>;
template struct GatherHeadsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
