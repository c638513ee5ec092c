#include "ops/activation/swiglu.h"

#include "ops/activation/swiglu_kernels.h"
#include "ops/op.h"

namespace moh {

Variable swiglu(const Variable& gate, const Variable& up) {
  Check("swiglu")
      .floating("gate", gate)
      .like("up", up, "gate", gate)
      .shape("up", up, gate.shape(), "as gate");
  Tensor y = empty_like(gate.value());
  run_kernel("swiglu", y, [&]<class Backend, class T>() {
    SwigluKernels<Backend, T>::forward(gate.value().data<T>(), up.value().data<T>(), y.data<T>(), y.numel());
  });
  return record("swiglu", y, {gate, up}, [gate = gate.value(), up = up.value()](const Tensor& dy) -> Grads {
    Tensor dgate = empty_like(gate), dup = empty_like(up);
    run_kernel("swiglu", dy, [&]<class Backend, class T>() {
      SwigluKernels<Backend, T>::backward(dy.data<T>(), gate.data<T>(), up.data<T>(), dgate.data<T>(),
                                          dup.data<T>(), dy.numel());
    });
    return {dgate, dup};
  });
}

}  // namespace moh
