#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "core/cuda/launch.h"

namespace moh::cuda {

/// kCount elements that lie one behind the other, loaded and stored 16 bytes at a time where they are as
/// many.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Run {
  T values[kCount];
};

/// The run that begins at `from`, which is aligned as a Run is.
template <int kCount, class T>
MOH_DEVICE Run<T, kCount> load_run(const T* from) {
  return *reinterpret_cast<const Run<T, kCount>*>(from);
}
template <int kCount, class T>
MOH_DEVICE void store_run(T* to, const Run<T, kCount>& run) {
  *reinterpret_cast<Run<T, kCount>*>(to) = run;
}

/// Elements of the smaller of two types in 16 bytes, at most eight; two where either has 8 bytes, whose
/// conversions take many registers.
template <class A, class B = A>
inline constexpr int kRunOf = sizeof(A) > 4 || sizeof(B) > 4   ? 2
                              : sizeof(A) < 2 || sizeof(B) < 2 ? 8
                              : sizeof(A) < sizeof(B)          ? 16 / static_cast<int>(sizeof(A))
                                                               : 16 / static_cast<int>(sizeof(B));

/// Whether a run may begin at every one of these addresses, null ones left out.
template <class... Pointers>
constexpr bool runs_fit(const Pointers*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) | ...) & 15U) == 0;
}

}  // namespace moh::cuda
