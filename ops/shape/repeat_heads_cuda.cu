#include "core/cuda/tag.h"
#include "ops/cuda/divide.h"
#include "ops/shape/repeat_heads_kernels.h"

namespace moh {

namespace {

/// An element of y: of the head that it is a copy of.
template <class T>
struct RepeatHeads {
  const T* x;
  T* y;
  RepeatedHeads shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division element = divide(i, shape.head_dim);
    const Division head = divide(element.quotient, shape.first + shape.repeated * shape.times);
    const std::int64_t after = head.rest - shape.first;
    const std::int64_t from = after < 0 ? head.rest : shape.first + divide(after, shape.times).quotient;
    y[i] = x[(head.quotient * (shape.first + shape.repeated) + from) * shape.head_dim + element.rest];
  }
};

/// An element of dx: the sum over the copies of its head, in their order.
template <class T>
struct SumCopies {
  const T* dy;
  T* dx;
  RepeatedHeads shape;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division element = divide(i, shape.head_dim);
    const Division head = divide(element.quotient, shape.first + shape.repeated);
    const std::int64_t after = head.rest - shape.first;
    const std::int64_t first = after < 0 ? head.rest : shape.first + after * shape.times;
    const std::int64_t copies = after < 0 ? 1 : shape.times;
    const T* from = dy +
                    (head.quotient * (shape.first + shape.repeated * shape.times) + first) * shape.head_dim +
                    element.rest;
    float sum = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) sum += static_cast<float>(from[copy * shape.head_dim]);
    dx[i] = sum;
  }
};

}  // namespace

template <class Backend, class T>
void RepeatHeadsKernels<Backend, T>::forward(const T* x, T* y, RepeatedHeads s) {
  cuda::launch_each("repeat_heads", s.tokens * (s.first + s.repeated * s.times) * s.head_dim,
                    RepeatHeads<T>{x, y, s});
}

template <class Backend, class T>
void RepeatHeadsKernels<Backend, T>::backward(const T* dy, T* dx, RepeatedHeads s) {
  cuda::launch_each("repeat_heads_gradient", s.tokens * (s.first + s.repeated) * s.head_dim,
                    SumCopies<T>{dy, dx, s});
}

template struct RepeatHeadsKernels<Cuda, float>;
template struct RepeatHeadsKernels<Cuda, bfloat16>;

}  // namespace moh
