#include "ops/conv/depthwise_cuda.h"

namespace moh {

namespace {

template <class T>
struct StorePixel {
  RowAccess<T> to;
  MOH_DEVICE void operator()(std::int64_t pixel, std::int64_t first,
                             const float (&values)[Pack<T>::kCount]) const {
    to.at(pixel).store(first, values);
  }
};

}  // namespace

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::run(const T* from, const Acc<T>* w, const T* b, T* to,
                                       const DepthwisePass& pass) {
  cuda::launch("depthwise_conv2d", depthwise_kernel<T, StorePixel<T>>, depthwise_grid(pass),
               depthwise(pixels_at(from, pass.channels), w, b, pass),
               StorePixel<T>{rows_at(to, pass.channels)});
}

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::weight_gradient(const T* x, const T* dy, Acc<T>* dw, const ConvShape& s) {
  sum_weight_gradient(pixels_at(x, s.channels), dy, dw, s);
}

template struct DepthwiseKernels<Cuda, float>;
template struct DepthwiseKernels<Cuda, bfloat16>;

}  // namespace moh
