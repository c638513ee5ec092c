#pragma once

#include "ops/activation/gelu.h"
#include "ops/linalg/matmul.h"

namespace moh {

/// c = gelu(a b + bias), and h = a b + bias, the pre-activation for the backward pass. Matrices of one dtype,
/// with all of their columns. bias [n], of the same dtype, and h may be undefined.
void matmul_gelu_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias,
                      const Tensor& h, GeluForm form);

/// c = (a b) gelu'(h), elementwise. Then h is overwritten with gelu(h), which the weight gradient of the next
/// layer needs, so that it takes no memory of its own.
void matmul_gelu_gradient_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& h,
                               GeluForm form);

}  // namespace moh
