#include "ops/moh/head_rows_cpu.h"
#include "ops/moh/mix_experts_kernels.h"

namespace moh {
namespace {

/// Calls body(head) for every head, counted through all tokens, in parallel.
template <class Body>
[[gnu::always_inline]] inline void for_each_head(const ExpertRows& s, const Body& body) {
  parallel_for(s.heads, row_grain(s.heads, s.experts * s.head_dim),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t head = begin; head < end; ++head) body(head);
               });
}

/// The sum of the selected experts' rows of a head, times their gates. Experts are added in their order,
/// whatever the vector.
template <class T>
[[gnu::always_inline]] inline void mix_rows_of(const T* rows, const Acc<T>* gates, T* to, std::int64_t head,
                                               const ExpertRows& s) {
  using A = Acc<T>;
  const std::int64_t first = head * s.experts, d = s.head_dim;
  for_vectors_in<A>(0, d, [&](auto at) {
    Vec<A> sum{};
    for (std::int64_t e = first; e < first + s.experts; ++e)
      if (s.selected[e] != 0) sum += gates[e] * at.load_cached(rows + e * d);
    at.store(to, sum);
  });
}

template <class T>
[[gnu::always_inline]] inline Acc<T> dot_of_rows(const T* a, const T* b, std::int64_t d) {
  using A = Acc<T>;
  Vec<A> sum{};
  for_vectors_in<A>(0, d, [&](auto at) { sum += at.load_cached(a) * at.load_cached(b); });
  return sum_lanes<A>(sum);
}

}  // namespace

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::mix(const T* rows, const Acc<T>* gates, T* heads,
                                        const ExpertRows& shape) {
  for_each_head(shape, [=](std::int64_t head) {
    mix_rows_of(rows, gates, heads + head * shape.head_dim, head, shape);
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::mix_backward(const T* d_heads, const T* rows, const Acc<T>* gates,
                                                 T* d_rows, Acc<T>* d_gates, const ExpertRows& shape) {
  const std::int64_t d = shape.head_dim;
  for_each_head(shape, [=](std::int64_t head) {
    for (std::int64_t e = head * shape.experts; e < (head + 1) * shape.experts; ++e) {
      if (shape.selected[e] != 0) {
        d_gates[e] = gated_row_backward(d_heads + head * d, rows + e * d, gates[e], d_rows + e * d, d);
      } else {
        d_gates[e] = 0;
        clear_row(d_rows + e * d, d);
      }
    }
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::spread(const T* heads, const Acc<T>* gates, T* rows,
                                           const ExpertRows& shape) {
  const std::int64_t d = shape.head_dim;
  for_each_head(shape, [=](std::int64_t head) {
    for (std::int64_t e = head * shape.experts; e < (head + 1) * shape.experts; ++e) {
      if (shape.selected[e] != 0) {
        scale_row(heads + head * d, gates[e], rows + e * d, d);
      } else {
        clear_row(rows + e * d, d);
      }
    }
  });
}

template <class Backend, class T>
void MixExpertsKernels<Backend, T>::spread_backward(const T* d_rows, const T* heads, const Acc<T>* gates,
                                                    T* d_heads, Acc<T>* d_gates, const ExpertRows& shape) {
  const std::int64_t d = shape.head_dim;
  for_each_head(shape, [=](std::int64_t head) {
    mix_rows_of(d_rows, gates, d_heads + head * d, head, shape);
    for (std::int64_t e = head * shape.experts; e < (head + 1) * shape.experts; ++e)
      d_gates[e] = shape.selected[e] != 0 ? dot_of_rows(d_rows + e * d, heads + head * d, d) : Acc<T>(0);
  });
}

template struct MixExpertsKernels<cpu::MOH_ISA, float>;
template struct MixExpertsKernels<cpu::MOH_ISA, bfloat16>;
template struct MixExpertsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
