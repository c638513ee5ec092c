#pragma once

// For kernel files (*_cuda.cu) only: a head vector distributed over neighbouring lanes of a warp.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/device/warp.h"

namespace moh::aggregated {

/// Norms below it count as it.
inline constexpr float kLeastNorm = 1e-12F;

/// Elements that are loaded together, so that 16 bytes of any dtype are whole.
inline constexpr int kChunk = 8;

template <class T>
struct alignas(16) Chunk {
  T values[kChunk];
};
/// Four floats of shared memory, loaded in one access.
struct alignas(16) Quad {
  float values[4];
};

/// The kWidth elements of a head, zeros past its width, in float32: kSplit lanes hold kDims each, in chunks
/// that alternate between them, so that the lanes of a head read neighbouring addresses. Functions that
/// combine the lanes must be called by whole warps.
template <int kLanes, int kElements>
struct HeadSlice {
  static constexpr int kSplit = kLanes, kDims = kElements;
  static constexpr int kWidth = kSplit * kDims;
  static_assert(kDims % kChunk == 0);
  float v[kDims];

  /// The lane's number among those of its head.
  MOH_DEVICE static int part() { return device::thread_x() % kSplit; }
  /// The first element of a chunk of the lane.
  MOH_DEVICE static int place(int chunk) { return (chunk * kSplit + part()) * kChunk; }

  MOH_DEVICE void clear() { MOH_UNROLL for (float& value : v) value = 0; }

  /// A row of head_dim elements; `whole`: of whole chunks, aligned to 16 bytes.
  template <class T>
  MOH_DEVICE void load(const T* row, int head_dim, bool whole) {
    MOH_UNROLL for (int c = 0; c < kDims / kChunk; ++c) {
      const int first = place(c);
      if (whole) {
        Chunk<T> chunk{};
        if (first < head_dim) chunk = *reinterpret_cast<const Chunk<T>*>(row + first);
        MOH_UNROLL for (int i = 0; i < kChunk; ++i) v[c * kChunk + i] = chunk.values[i];
      } else {
        MOH_UNROLL for (int i = 0; i < kChunk; ++i) {
          v[c * kChunk + i] = first + i < head_dim ? static_cast<float>(row[first + i]) : 0.0F;
        }
      }
    }
  }
  template <class T>
  MOH_DEVICE void store(T* row, int head_dim, bool whole) const {
    MOH_UNROLL for (int c = 0; c < kDims / kChunk; ++c) {
      const int first = place(c);
      if (whole) {
        Chunk<T> chunk;
        MOH_UNROLL for (int i = 0; i < kChunk; ++i) chunk.values[i] = v[c * kChunk + i];
        if (first < head_dim) *reinterpret_cast<Chunk<T>*>(row + first) = chunk;
      } else {
        MOH_UNROLL for (int i = 0; i < kChunk; ++i) {
          if (first + i < head_dim) row[first + i] = v[c * kChunk + i];
        }
      }
    }
  }

  /// Rows of kWidth floats, in shared memory or in a workspace.
  MOH_DEVICE void load_padded(const float* row) {
    MOH_UNROLL for (int c = 0; c < kDims; c += 4) {
      const Quad quad = *reinterpret_cast<const Quad*>(row + place(c / kChunk) + c % kChunk);
      MOH_UNROLL for (int i = 0; i < 4; ++i) v[c + i] = quad.values[i];
    }
  }
  MOH_DEVICE void store_padded(float* row) const {
    MOH_UNROLL for (int c = 0; c < kDims; c += 4) {
      Quad quad;
      MOH_UNROLL for (int i = 0; i < 4; ++i) quad.values[i] = v[c + i];
      *reinterpret_cast<Quad*>(row + place(c / kChunk) + c % kChunk) = quad;
    }
  }

  MOH_DEVICE void scale(float factor) { MOH_UNROLL for (float& value : v) value *= factor; }
  MOH_DEVICE void add(float factor, const HeadSlice& other) {
    MOH_UNROLL for (int i = 0; i < kDims; ++i) v[i] += factor * other.v[i];
  }

  /// a x + b y
  MOH_DEVICE static HeadSlice mix(float a, const HeadSlice& x, float b, const HeadSlice& y) {
    HeadSlice sum;
    MOH_UNROLL for (int i = 0; i < kDims; ++i) sum.v[i] = a * x.v[i] + b * y.v[i];
    return sum;
  }

  /// The inner product of two heads, in all their lanes. Four chains of additions at once.
  MOH_DEVICE float dot(const HeadSlice& other) const {
    float sums[4] = {};
    MOH_UNROLL for (int i = 0; i < kDims; ++i) sums[i % 4] += v[i] * other.v[i];
    float sum = sums[0] + sums[1] + (sums[2] + sums[3]);
    MOH_UNROLL for (int mask = kSplit / 2; mask > 0; mask /= 2) sum += device::shuffle_xor(sum, mask);
    return sum;
  }

  /// 1 / the norm.
  MOH_DEVICE float inverse_norm() const { return 1.0F / fmaxf(sqrtf(dot(*this)), kLeastNorm); }

  /// *this is the gradient of u = x / |x|; makes it that of x.
  MOH_DEVICE void make_gradient_of(const HeadSlice& unit, float inverse) {
    const float product = dot(unit), along = inverse < 1.0F / kLeastNorm ? inverse * product : 0.0F;
    MOH_UNROLL for (int i = 0; i < kDims; ++i) v[i] = v[i] * inverse - unit.v[i] * along;
  }
};

/// Calls fn with a HeadSlice for heads of head_dim elements.
template <class Fn>
void with_slice(std::int64_t head_dim, const Fn& fn) {
  if (head_dim <= 24) {
    fn(std::type_identity<HeadSlice<1, 24>>{});
  } else if (head_dim <= 64) {
    fn(std::type_identity<HeadSlice<4, 16>>{});
  } else {
    fn(std::type_identity<HeadSlice<16, 16>>{});
  }
}

}  // namespace moh::aggregated
