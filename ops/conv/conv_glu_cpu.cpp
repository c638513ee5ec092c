#include "ops/activation/gelu_cpu.h"
#include "ops/conv/conv_glu_kernels.h"
#include "ops/conv/depthwise_cpu.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void ConvGluKernels<Backend, T>::forward(const T* h, const Acc<T>* w, const T* b, T* z, T* y,
                                         const ConvShape& s) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels, width = s.x.output;
  const DepthwisePass pass{s.batch, channels, TapAxis::forward(s.y), TapAxis::forward(s.x)};
  run_depthwise<T>({h, 2 * channels}, w, b, {z, channels}, pass, [=](std::int64_t row) {
    for (std::int64_t pixel = row * width; pixel < (row + 1) * width; ++pixel) {
      const T* zi = z + pixel * channels;
      const T* gate = h + (2 * pixel + 1) * channels;
      T* yi = y + pixel * channels;
      for_vectors_in<A>(0, channels,
                        [=](auto at) { at.store(yi, ExactGelu<T>()(at.load(zi)).value * at.load(gate)); });
    }
  });
}

// With s = gelu(z): dg = dy s, dz = dy g s', and du is the transposed convolution of dz.
template <class Backend, class T>
void ConvGluKernels<Backend, T>::backward(const T* dy, const T* h, const Acc<T>* w, T* z, T* dh,
                                          const ConvShape& s) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels, pixels = s.output_pixels();
  parallel_for(pixels, row_grain(pixels, channels), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      const T *dyi = dy + pixel * channels, *gate = h + (2 * pixel + 1) * channels;
      T *zi = z + pixel * channels, *dgate = dh + (2 * pixel + 1) * channels;
      for_vectors_in<A>(0, channels, [=](auto at) {
        const GeluAt<A> gelu = ExactGelu<T>()(at.load(zi));
        const Vec<A> dyc = at.load(dyi);
        at.store(dgate, dyc * gelu.value);
        at.store(zi, dyc * at.load(gate) * gelu.slope);
      });
    }
  });
  run_depthwise<T>({z, channels}, w, nullptr, {dh, 2 * channels},
                   {s.batch, channels, TapAxis::backward(s.y), TapAxis::backward(s.x)}, [](std::int64_t) {});
}

template <class Backend, class T>
void ConvGluKernels<Backend, T>::weight_gradient(const T* h, const T* dz, Acc<T>* dw, const ConvShape& s) {
  sum_weight_gradient<T>({h, 2 * s.channels}, {dz, s.channels}, dw, s);
}

MOH_MATRIX_KERNELS(ConvGluKernels)

}  // namespace moh
