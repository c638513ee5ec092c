#include "ops/cuda/divide.h"
#include "ops/cuda/rows.h"
#include "ops/tokens/add_positions_kernels.h"

// A thread works on 16 bytes of an image (a piece), or of all images. Pieces are whole where the class token
// and the tokens of an image are whole pieces, too.

namespace moh {

namespace {

/// Arrays [images, size] whose elements are pieces of T, or single elements.
template <class T>
struct Images {
  T* data;
  std::int64_t size;
};

template <class T>
constexpr int kPack = Pack<std::remove_const_t<T>>::kCount;

template <class T>
bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// A piece in float32, if kWhole, else one element of it.
template <class T, bool kWhole>
struct PieceOf {
  static constexpr int kCount = kWhole ? kPack<T> : 1;
  float values[kCount];

  MOH_DEVICE void load(const T* from) {
    if constexpr (kWhole) {
      const auto pack = *reinterpret_cast<const Pack<T>*>(from);
      for (int j = 0; j < kCount; ++j) values[j] = pack.values[j];
    } else {
      values[0] = *from;
    }
  }
  MOH_DEVICE void store(T* to) const {
    if constexpr (kWhole) {
      Pack<T> pack;
      for (int j = 0; j < kCount; ++j) pack.values[j] = values[j];
      *reinterpret_cast<Pack<T>*>(to) = pack;
    } else {
      *to = values[0];
    }
  }
  MOH_DEVICE void add(const PieceOf& other) {
    for (int j = 0; j < kCount; ++j) values[j] += other.values[j];
  }
};

template <class T, bool kWhole>
struct AddPositions {
  const T *x, *token, *positions;
  T* y;
  TokenSizes sizes;

  MOH_DEVICE void operator()(std::int64_t i) const {
    using Piece = PieceOf<T, kWhole>;
    const Division at = divide(i, sizes.image() / Piece::kCount);
    const std::int64_t first = at.rest * Piece::kCount;
    Piece sum, position;
    sum.load(first < sizes.prefix ? token + first : x + at.quotient * sizes.body + first - sizes.prefix);
    position.load(positions + first);
    sum.add(position);
    sum.store(y + at.quotient * sizes.image() + first);
  }
};

/// Sums a piece over the images, in their order, and copies those of tokens to dx on the way: dy is read
/// once. Several images are loaded before they are added.
template <class T, bool kWhole>
struct SumImages {
  const T* dy;
  T* dx;
  float* dpositions;
  TokenSizes sizes;

  MOH_DEVICE void operator()(std::int64_t i) const {
    using Piece = PieceOf<T, kWhole>;
    constexpr int kInFlight = 8;
    const std::int64_t first = i * Piece::kCount;
    float sum[Piece::kCount] = {};
    for (std::int64_t b = 0; b < sizes.images; b += kInFlight) {
      Piece pieces[kInFlight];
      MOH_UNROLL for (int u = 0; u < kInFlight; ++u) {
        const std::int64_t image = b + u < sizes.images ? b + u : sizes.images - 1;
        pieces[u].load(dy + image * sizes.image() + first);
      }
      MOH_UNROLL for (int u = 0; u < kInFlight; ++u) {
        if (b + u >= sizes.images) break;
        for (int j = 0; j < Piece::kCount; ++j) sum[j] += pieces[u].values[j];
        if (dx != nullptr && first >= sizes.prefix)
          pieces[u].store(dx + (b + u) * sizes.body + first - sizes.prefix);
      }
    }
    for (int j = 0; j < Piece::kCount; ++j) dpositions[first + j] = sum[j];
  }
};

/// y = elements [first, first + y.size) of each image of x.
template <class T>
struct TakeElements {
  Images<const T> x;
  Images<T> y;
  std::int64_t first;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division at = divide(i, y.size);
    y.data[i] = x.data[at.quotient * x.size + first + at.rest];
  }
};

/// The reverse; zeros elsewhere.
template <class T>
struct PutElements {
  Images<const T> y;
  Images<T> x;
  std::int64_t first;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division at = divide(i, x.size);
    const std::int64_t element = at.rest - first;
    const bool inside = element >= 0 && element < y.size;
    x.data[i] = inside ? y.data[at.quotient * y.size + element] : static_cast<T>(0.0F);
  }
};

/// Calls fn with true if all images are whole pieces.
template <class T, class Fn>
void with_pieces(const TokenSizes& s, bool aligned, const Fn& fn) {
  if (aligned && s.prefix % kPack<T> == 0 && s.body % kPack<T> == 0) {
    fn(std::true_type{}, kPack<T>);
  } else {
    fn(std::false_type{}, 1);
  }
}

}  // namespace

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::forward(const T* x, const T* token, const T* positions, T* y,
                                              TokenSizes s) {
  const bool aligned = is_aligned(x) && is_aligned(token) && is_aligned(positions) && is_aligned(y);
  with_pieces<T>(s, aligned, [&](auto whole, std::int64_t pack) {
    cuda::launch_each("add_positions", s.images * s.image() / pack,
                      AddPositions<T, whole.value>{x, token, positions, y, s});
  });
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::backward(const T* dy, T* dx, Acc<T>* dpositions, TokenSizes s) {
  with_pieces<T>(s, is_aligned(dy) && is_aligned(dx), [&](auto whole, std::int64_t pack) {
    cuda::launch_each("add_positions_gradient", s.image() / pack,
                      SumImages<T, whole.value>{dy, dx, dpositions, s});
  });
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::take(const T* x, T* y, std::int64_t images, std::int64_t image,
                                           std::int64_t first, std::int64_t width) {
  cuda::launch_each("take_token", images * width, TakeElements<T>{{x, image}, {y, width}, first});
}

template <class Backend, class T>
void AddPositionsKernels<Backend, T>::put(const T* dy, T* dx, std::int64_t images, std::int64_t image,
                                          std::int64_t first, std::int64_t width) {
  cuda::launch_each("take_token_gradient", images * image, PutElements<T>{{dy, width}, {dx, image}, first});
}

template struct AddPositionsKernels<Cuda, float>;
template struct AddPositionsKernels<Cuda, bfloat16>;

}  // namespace moh
