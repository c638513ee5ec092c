#include "core/cuda/tag.h"
#include "ops/cuda/divide.h"
#include "ops/shape/split_kernels.h"

namespace moh {

namespace {

/// The place of an element of a row in its part.
struct PartPlace {
  int part;
  std::int64_t element;
};
template <class T>
MOH_DEVICE PartPlace place_in(const RowParts<T>& parts, const Division& at) {
  int part = parts.count - 1;
  while (part > 0 && at.rest < parts.begin[part]) --part;
  const std::int64_t first = parts.begin[part];
  return {part, at.quotient * (parts.end(part) - first) + at.rest - first};
}

/// An element of x.
template <class T>
struct Split {
  const T* x;
  RowParts<T> parts;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const PartPlace place = place_in(parts, divide(i, parts.width));
    parts.data[place.part][place.element] = x[i];
  }
};

/// An element of dx.
template <class T>
struct Join {
  RowParts<const T> parts;
  T* dx;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const PartPlace place = place_in(parts, divide(i, parts.width));
    const T* const from = parts.data[place.part];
    dx[i] = from != nullptr ? from[place.element] : T(0.0F);
  }
};

}  // namespace

template <class Backend, class T>
void SplitKernels<Backend, T>::forward(const T* x, const RowParts<T>& parts) {
  cuda::launch_each("split", parts.rows * parts.width, Split<T>{x, parts});
}

template <class Backend, class T>
void SplitKernels<Backend, T>::backward(const RowParts<const T>& parts, T* dx) {
  cuda::launch_each("split_gradient", parts.rows * parts.width, Join<T>{parts, dx});
}

template struct SplitKernels<Cuda, float>;
template struct SplitKernels<Cuda, bfloat16>;

}  // namespace moh
