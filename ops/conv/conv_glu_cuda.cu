#include "ops/activation/gelu_cuda.h"
#include "ops/conv/conv_glu_kernels.h"
#include "ops/conv/depthwise_cuda.h"
#include "ops/cuda/divide.h"

namespace moh {

namespace {

/// z of a pixel, unless z is y, and y = gelu(z) times its gate.
template <class T>
struct GatePixel {
  Pixels<const T> gates;
  RowAccess<T> z, y;

  MOH_DEVICE void operator()(std::int64_t pixel, std::int64_t first,
                             const float (&values)[Pack<T>::kCount]) const {
    float result[Pack<T>::kCount];
    gates.at(pixel).load(first, result);
    for (int j = 0; j < Pack<T>::kCount; ++j) result[j] *= ExactGelu::at(values[j]).value;
    if (z.row != y.row) z.at(pixel).store(first, values);
    y.at(pixel).store(first, result);
  }
};

template <class T>
struct StoreGradient {
  Pixels<T> du;
  MOH_DEVICE void operator()(std::int64_t pixel, std::int64_t first,
                             const float (&values)[Pack<T>::kCount]) const {
    du.at(pixel).store(first, values);
  }
};

/// With s = gelu(z): dg = dy s, and dz = dy g s' in place of z. A thread computes 16 bytes of a pixel.
template <class T>
struct GluGradient {
  RowAccess<const T> dy;
  Pixels<const T> gates;
  RowAccess<T> z;
  Pixels<T> dgates;
  std::int64_t pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    constexpr int kPack = Pack<T>::kCount;
    const Division at = divide(i, pieces);
    const std::int64_t pixel = at.quotient, first = at.rest * kPack;
    float dys[kPack], zs[kPack], gate[kPack];
    dy.at(pixel).load(first, dys);
    gates.at(pixel).load(first, gate);
    RowAccess<const T>{z.row, z.width, z.aligned}.at(pixel).load(first, zs);
    for (int j = 0; j < kPack; ++j) {
      const GeluAt gelu = ExactGelu::at(zs[j]);
      zs[j] = dys[j] * gate[j] * gelu.slope;
      gate[j] = dys[j] * gelu.value;
    }
    dgates.at(pixel).store(first, gate);
    z.at(pixel).store(first, zs);
  }
};

}  // namespace

template <class Backend, class T>
void ConvGluKernels<Backend, T>::forward(const T* h, const Acc<T>* w, const T* b, T* z, T* y,
                                         const ConvShape& s) {
  const std::int64_t channels = s.channels;
  const DepthwisePass pass{s.batch, channels, TapAxis::forward(s.y), TapAxis::forward(s.x)};
  cuda::launch("conv_glu", depthwise_kernel<T, GatePixel<T>>, depthwise_grid(pass),
               depthwise(pixels_at(h, channels, 2 * channels), w, b, pass),
               GatePixel<T>{pixels_at(h + channels, channels, 2 * channels), rows_at(z, channels),
                            rows_at(y, channels)});
}

// du is the transposed convolution of dz.
template <class Backend, class T>
void ConvGluKernels<Backend, T>::backward(const T* dy, const T* h, const Acc<T>* w, T* z, T* dh,
                                          const ConvShape& s) {
  const std::int64_t channels = s.channels, pieces = (channels + Pack<T>::kCount - 1) / Pack<T>::kCount;
  cuda::launch_each(
      "conv_glu_gates_gradient", s.output_pixels() * pieces,
      GluGradient<T>{rows_at(dy, channels), pixels_at(h + channels, channels, 2 * channels),
                     rows_at(z, channels), pixels_at(dh + channels, channels, 2 * channels), pieces});
  const DepthwisePass pass{s.batch, channels, TapAxis::backward(s.y), TapAxis::backward(s.x)};
  const T *dz = z, *no_bias = nullptr;
  cuda::launch("conv_glu_gradient", depthwise_kernel<T, StoreGradient<T>>, depthwise_grid(pass),
               depthwise(pixels_at(dz, channels), w, no_bias, pass),
               StoreGradient<T>{pixels_at(dh, channels, 2 * channels)});
}

template <class Backend, class T>
void ConvGluKernels<Backend, T>::weight_gradient(const T* h, const T* dz, Acc<T>* dw, const ConvShape& s) {
  sum_weight_gradient(pixels_at(h, s.channels, 2 * s.channels), dz, dw, s);
}

template struct ConvGluKernels<Cuda, float>;
template struct ConvGluKernels<Cuda, bfloat16>;

}  // namespace moh
