#pragma once

#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"

// Rows of the output of one head, of d elements, and the gate that multiplies them.

namespace moh {
namespace {

/// to = factor * from.
template <class T>
[[gnu::always_inline]] inline void scale_row(const T* from, Acc<T> factor, T* to, std::int64_t d) {
  for_vectors_in<Acc<T>>(0, d, [=](auto at) { at.store(to, factor * at.load(from)); });
}

template <class T>
[[gnu::always_inline]] inline void clear_row(T* to, std::int64_t d) {
  __builtin_memset(static_cast<void*>(to), 0, static_cast<std::size_t>(d) * sizeof(T));
}

/// dy = gate * dx, plus the row `further` if there is one, and the gradient <dx, y> of the gate.
template <class T>
[[gnu::always_inline]] inline Acc<T> gated_row_backward(const T* dx, const T* y, Acc<T> gate, T* dy,
                                                        std::int64_t d, const T* further = nullptr) {
  using A = Acc<T>;
  Vec<A> sum{};
  for_vectors_in<A>(0, d, [&](auto at) {
    const Vec<A> gradient = at.load(dx);
    sum += gradient * at.load(y);
    const Vec<A> of_gate = gate * gradient;
    at.store(dy, further ? of_gate + at.load(further) : of_gate);
  });
  return sum_lanes<A>(sum);
}

}  // namespace
}  // namespace moh
