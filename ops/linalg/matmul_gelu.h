#pragma once

#include "ops/activation/gelu.h"
#include "ops/linalg/matmul.h"

namespace moh {

/// c = gelu(a b + bias), and h = a b + bias: matrices of one dtype, all of their columns. bias [n], also of
/// that dtype, may be undefined, and so may h, which is what the backward pass needs.
void matmul_gelu_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias,
                      const Tensor& h, GeluForm form);

/// c = (a b) gelu'(h), elementwise. Then h becomes gelu(h): the backward pass of a layer behind needs it, and
/// can have it without memory of its own.
void matmul_gelu_gradient_into(const Tensor& c, const Operand& a, const Operand& b, const Tensor& h,
                               GeluForm form);

}  // namespace moh
