#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/loss/top1_kernels.h"

namespace moh {
namespace {

/// The index of the largest of `count` numbers.
template <class T>
[[gnu::always_inline]] inline std::int64_t largest_of(const T* values, std::int64_t count) {
  using A = Acc<T>;
  std::int64_t best = 0;
  A top = A(values[0]);
  for (std::int64_t j = 1; j < count; ++j) {
    const A value = A(values[j]);
    if (!(value > top) && (top == top || value != value)) continue;
    best = j;
    top = value;
  }
  return best;
}

}  // namespace

template <class Backend, class T>
void Top1Kernels<Backend, T>::largest(const T* logits, std::int64_t* classes, Rows rows) {
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) classes[i] = largest_of(logits + i * rows.width, rows.width);
  });
}

template <class Backend, class T>
void Top1Kernels<Backend, T>::compare(const T* logits, const Acc<T>* targets, Acc<T>* hits, Rows rows) {
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t found = largest_of(logits + i * rows.width, rows.width);
      hits[i] = found == largest_of(targets + i * rows.width, rows.width) ? Acc<T>(1) : Acc<T>(0);
    }
  });
}

template struct Top1Kernels<cpu::MOH_ISA, float>;
template struct Top1Kernels<cpu::MOH_ISA, bfloat16>;
template struct Top1Kernels<cpu::MOH_ISA, double>;

}  // namespace moh
