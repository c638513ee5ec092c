#include "ops/moh/sigmoid_gate.h"

#include "ops/moh/sigmoid_gate_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// The shape of logits with one for each head of x, or for each of its elements.
Shape shape_of_logits(const Variable& x, bool each_element) {
  std::vector<std::int64_t> lengths;
  for (int axis = 0; axis + 2 < x.shape().rank(); ++axis) lengths.push_back(x.dim(axis));
  lengths.push_back(each_element ? x.dim(-2) * x.dim(-1) : x.dim(-2));
  return Shape(lengths);
}

GatedHeads check_sigmoid_gate(const Variable& x, const Variable& logits) {
  Check check("sigmoid_gate");
  check.floating("x", x).min_rank("x", x, 2);
  const Shape of_heads = shape_of_logits(x, false), of_elements = shape_of_logits(x, true);
  check.floating("logits", logits).like("logits", logits, "x", x);
  if (logits.shape() != of_heads && logits.shape() != of_elements) {
    throw ShapeError(error_message(
        "sigmoid_gate", "logits",
        to_string(of_heads) + " for the heads of x, or " + to_string(of_elements) + " for its elements",
        to_string(logits.shape())));
  }
  const std::int64_t d = x.dim(-1);
  return {d > 0 ? x.value().numel() / d : 0, d, logits.shape() != of_heads};
}

}  // namespace

Variable sigmoid_gate(const Variable& x, const Variable& logits) {
  const GatedHeads shape = check_sigmoid_gate(x, logits);
  Tensor y = empty_like(x.value());
  run_kernel("sigmoid_gate", y, [&]<class Backend, class T>() {
    SigmoidGateKernels<Backend, T>::forward(x.value().data<T>(), logits.value().data<T>(), y.data<T>(),
                                            shape);
  });
  return record("sigmoid_gate", y, {x, logits},
                [x = x.value(), logits = logits.value(), shape](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x), dlogits = empty_like(logits);
                  run_kernel("sigmoid_gate", dy, [&]<class Backend, class T>() {
                    SigmoidGateKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), logits.data<T>(),
                                                             dx.data<T>(), dlogits.data<T>(), shape);
                  });
                  return {dx, dlogits};
                });
}

}  // namespace moh
