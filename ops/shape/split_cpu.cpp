#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/shape/split_kernels.h"

namespace moh {

template <class Backend, class T>
void SplitKernels<Backend, T>::forward(const T* x, const RowParts<T>& parts) {
  parallel_for(parts.rows, row_grain(parts.rows, parts.width), [=](std::int64_t begin, std::int64_t end) {
    for (int part = 0; part < parts.count; ++part) {
      const std::int64_t first = parts.begin[part], width = parts.end(part) - first;
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t i = 0; i < width; ++i)
          parts.data[part][row * width + i] = x[row * parts.width + first + i];
      }
    }
  });
}

template <class Backend, class T>
void SplitKernels<Backend, T>::backward(const RowParts<const T>& parts, T* dx) {
  parallel_for(parts.rows, row_grain(parts.rows, parts.width), [=](std::int64_t begin, std::int64_t end) {
    for (int part = 0; part < parts.count; ++part) {
      const std::int64_t first = parts.begin[part], width = parts.end(part) - first;
      const T* const from = parts.data[part];
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t i = 0; i < width; ++i)
          dx[row * parts.width + first + i] = from != nullptr ? from[row * width + i] : T(0);
      }
    }
  });
}

template struct SplitKernels<cpu::MOH_ISA, float>;
template struct SplitKernels<cpu::MOH_ISA, bfloat16>;
template struct SplitKernels<cpu::MOH_ISA, double>;

}  // namespace moh
