#include "ops/cuda/column_sums.h"
#include "ops/moh/scale_heads_kernels.h"

namespace moh {

namespace {

/// Element i of [N, H, d] times the scale of its head.
template <class T>
struct TimesScale {
  const T* scales;
  std::int64_t heads, head_dim;
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t i) const {
    out[0] = static_cast<float>(scales[i / head_dim % heads]) * in[0];
  }
};

/// The contribution of token t to the gradient of the scale of head h.
template <class T>
struct ScaleGradient {
  const T *dy, *x;
  std::int64_t heads, head_dim;
  MOH_DEVICE float operator()(std::int64_t t, std::int64_t h) const {
    const std::int64_t first = (t * heads + h) * head_dim;
    float sum = 0;
    for (std::int64_t j = first; j < first + head_dim; ++j)
      sum += static_cast<float>(dy[j]) * static_cast<float>(x[j]);
    return sum;
  }
};

}  // namespace

template <class Backend, class T>
void ScaleHeadsKernels<Backend, T>::forward(const T* x, const T* scales, T* y, ScaledHeads shape) {
  launch_map<T, 1, 1>("scale_heads", shape.tokens * shape.heads * shape.head_dim, {{x}, {y}},
                      TimesScale<T>{scales, shape.heads, shape.head_dim});
}

template <class Backend, class T>
void ScaleHeadsKernels<Backend, T>::backward(const T* dy, const T* x, const T* scales, T* dx, Acc<T>* dscales,
                                             ScaledHeads shape) {
  launch_map<T, 1, 1>("scale_heads", shape.tokens * shape.heads * shape.head_dim, {{dy}, {dx}},
                      TimesScale<T>{scales, shape.heads, shape.head_dim});
  column_sums("scale_heads_gradient", ScaleGradient<T>{dy, x, shape.heads, shape.head_dim},
              {shape.tokens, shape.heads}, StoreSums{dscales});
}

template struct ScaleHeadsKernels<Cuda, float>;
template struct ScaleHeadsKernels<Cuda, bfloat16>;

}  // namespace moh
