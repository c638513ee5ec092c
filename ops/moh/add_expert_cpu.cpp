#include "ops/cpu/reduce.h"
#include "ops/moh/add_expert_kernels.h"

namespace moh {

template <class Backend, class T>
void AddExpertKernels<Backend, T>::forward(const T* sum, const T* output, const Acc<T>* gates, T* y,
                                           AddedExpertRows r) {
  using A = Acc<T>;
  parallel_for(r.count, row_grain(r.count, r.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const A gate = gates[n * r.stride];
      const T *from = output + n * r.width, *before = sum != nullptr ? sum + n * r.width : nullptr;
      T* to = y + n * r.width;
      for (std::int64_t i = 0; i < r.width; ++i) to[i] = before != nullptr ? A(before[i]) : A(0);
      if (gate == A(0)) continue;
#pragma omp simd
      for (std::int64_t i = 0; i < r.width; ++i)
        to[i] = (before != nullptr ? A(before[i]) : A(0)) + gate * A(from[i]);
    }
  });
}

template <class Backend, class T>
void AddExpertKernels<Backend, T>::backward(const T* dy, const T* output, const Acc<T>* gates, T* doutput,
                                            Acc<T>* dgates, AddedExpertRows r) {
  using A = Acc<T>;
  parallel_for(r.count, row_grain(r.count, r.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const A gate = gates[n * r.stride];
      const T *from = output + n * r.width, *of_y = dy + n * r.width;
      T* to = doutput + n * r.width;
      A dot = 0;
      if (gate == A(0)) {
        for (std::int64_t i = 0; i < r.width; ++i) to[i] = A(0);
      } else {
#pragma omp simd reduction(+ : dot)
        for (std::int64_t i = 0; i < r.width; ++i) {
          dot += A(of_y[i]) * A(from[i]);
          to[i] = gate * A(of_y[i]);
        }
      }
      dgates[n * r.stride] = dot;
    }
  });
}

template struct AddExpertKernels<cpu::MOH_ISA, float>;
template struct AddExpertKernels<cpu::MOH_ISA, bfloat16>;
template struct AddExpertKernels<cpu::MOH_ISA, double>;

}  // namespace moh
