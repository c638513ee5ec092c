#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "core/cuda/tag.h"
#include "core/dtype.h"
#include "ops/device/kernel.h"

namespace moh {

/// 16 bytes of T, loaded and stored in one access.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

/// Arrays of the same length that an elementwise kernel reads and writes.
template <class T, int kIn, int kOut>
struct MapOperands {
  const T* in[kIn];
  T* out[kOut];
};

/// Processes piece number `piece` of 16 bytes of each array; the last may be shorter.
template <class T, int kIn, int kOut, class F>
struct MapPiece {
  MapOperands<T, kIn, kOut> at;
  std::int64_t count;
  bool aligned;
  F f;

  MOH_DEVICE void element(const T (&in)[kIn], T (&out)[kOut], std::int64_t index) const {
    float wide[kIn], result[kOut];
    for (int k = 0; k < kIn; ++k) wide[k] = in[k];
    f(wide, result, index);
    for (int k = 0; k < kOut; ++k) out[k] = result[k];
  }

  MOH_DEVICE void whole(std::int64_t first) const {
    Pack<T> in[kIn], out[kOut];
    for (int k = 0; k < kIn; ++k) in[k] = *reinterpret_cast<const Pack<T>*>(at.in[k] + first);
    for (int j = 0; j < Pack<T>::kCount; ++j) {
      T values[kIn], results[kOut];
      for (int k = 0; k < kIn; ++k) values[k] = in[k].values[j];
      element(values, results, first + j);
      for (int k = 0; k < kOut; ++k) out[k].values[j] = results[k];
    }
    for (int k = 0; k < kOut; ++k) *reinterpret_cast<Pack<T>*>(at.out[k] + first) = out[k];
  }

  MOH_DEVICE void operator()(std::int64_t piece) const {
    const std::int64_t first = piece * Pack<T>::kCount;
    if (aligned && first + Pack<T>::kCount <= count) return whole(first);
    for (std::int64_t i = first; i < count && i < first + Pack<T>::kCount; ++i) {
      T values[kIn], results[kOut];
      for (int k = 0; k < kIn; ++k) values[k] = at.in[k][i];
      element(values, results, i);
      for (int k = 0; k < kOut; ++k) at.out[k][i] = results[k];
    }
  }
};

/// out[.][i] = f of in[.][i], computed in float32: F is a struct with
///   MOH_DEVICE void operator()(const float (&in)[kIn], float (&out)[kOut], std::int64_t i) const.
/// In place is allowed: an output may be one of the inputs.
template <class T, int kIn, int kOut, class F>
void launch_map(const char* name, std::int64_t count, const MapOperands<T, kIn, kOut>& at, const F& f) {
  constexpr int kPack = Pack<T>::kCount;
  bool aligned = true;
  for (const T* array : at.in) aligned = aligned && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  for (const T* array : at.out) aligned = aligned && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  cuda::launch_each(name, (count + kPack - 1) / kPack, MapPiece<T, kIn, kOut, F>{at, count, aligned, f});
}

}  // namespace moh
