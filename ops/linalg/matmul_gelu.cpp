#include "ops/linalg/matmul_gelu.h"

#include "core/error.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/linalg/gelu_mlp_kernels.h"
#include "ops/linalg/matmul_extra.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Whether GELU may be an epilogue: cuBLASLt has the tanh approximation.
bool is_part_of_product(const Tensor& c, const Operand& a, GeluForm form) {
  const std::int64_t depth = a.matrix.dim(a.transposed ? 0 : 1);
  return c.device() != kCpu && form == GeluForm::kTanh && depth > 0;
}

void check_alike(const Tensor& c, const Operand& a, const Operand& b, const Tensor& h) {
  MOH_CHECK(a.matrix.dtype() == c.dtype() && b.matrix.dtype() == c.dtype(),
            "operands must have the dtype of the result");
  MOH_CHECK(!h.defined() || (h.dtype() == c.dtype() && h.shape() == c.shape()),
            "h must have the shape and dtype of the result");
}

GemmExtra forward_extra(const Tensor& bias, const Tensor& h) {
  if (h.defined()) return bias.defined() ? GemmExtra::kGeluAuxBias : GemmExtra::kGeluAux;
  return bias.defined() ? GemmExtra::kGeluBias : GemmExtra::kGelu;
}

void run_gelu(const Tensor& x, const Tensor& y, GeluForm form) {
  run_kernel<MatrixIsas>("gelu_mlp", x, [&]<class Backend, class T>() {
    GeluKernels<Backend, T>::forward(x.data<T>(), y.data<T>(), x.numel(), form);
  });
}

}  // namespace

void matmul_gelu_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias,
                      const Tensor& h, GeluForm form) {
  check_alike(c, a, b, h);
  if (is_part_of_product(c, a, form))
    return matmul_extra_into(c, a, b, /*accumulate=*/false, {forward_extra(bias, h), bias, h});
  if (c.device() != kCpu) {  // at least the bias can be an epilogue
    const Tensor& sum = h.defined() ? h : c;
    bias.defined() ? matmul_bias_into(sum, a, b, bias) : matmul_into(sum, a, b);
    return run_gelu(sum, c, form);
  }
  matmul_into(c, a, b);
  run_kernel<MatrixIsas>("gelu_mlp", c, [&]<class Backend, class T>() {
    GeluMlpKernels<Backend, T>::forward(c.data<T>(), bias.defined() ? bias.data<T>() : nullptr,
                                        h.defined() ? h.data<T>() : nullptr, c.data<T>(),
                                        {c.dim(0), c.dim(1)}, form);
  });
}

void matmul_gelu_gradient_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& h,
                               GeluForm form) {
  check_alike(c, a, b, h);
  if (is_part_of_product(c, a, form)) {
    matmul_extra_into(c, a, b, /*accumulate=*/false, {GemmExtra::kGeluGradient, {}, h});
    return run_gelu(h, h, form);
  }
  matmul_into(c, a, b);
  run_kernel<MatrixIsas>("gelu_mlp", c, [&]<class Backend, class T>() {
    GeluMlpKernels<Backend, T>::backward(c.data<T>(), h.data<T>(), c.numel(), form);
  });
}

}  // namespace moh
