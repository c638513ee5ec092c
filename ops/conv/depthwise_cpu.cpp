#include "ops/conv/depthwise_cpu.h"

namespace moh {

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::run(const T* from, const Acc<T>* w, const T* b, T* to,
                                       const DepthwisePass& pass) {
  run_depthwise<T>({from, pass.channels}, w, b, {to, pass.channels}, pass, [](std::int64_t) {});
}

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::weight_gradient(const T* x, const T* dy, Acc<T>* dw, const ConvShape& s) {
  sum_weight_gradient<T>({x, s.channels}, {dy, s.channels}, dw, s);
}

template struct DepthwiseKernels<cpu::MOH_ISA, float>;
template struct DepthwiseKernels<cpu::MOH_ISA, bfloat16>;
template struct DepthwiseKernels<cpu::MOH_ISA, double>;

}  // namespace moh
