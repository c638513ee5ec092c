#include <utility>

#include "autograd/node.h"
#include "ops/linalg/matmul.h"
#include "train/plan/planned_ops.h"

// Linear maps and the products that they are made of.

namespace moh {

PlannedVariable PlannedOps::linear(const PlannedVariable& x, const PlannedVariable& w,
                                   std::int64_t rows) const {
  const std::int64_t in = x.value().numel() / rows, out = w.value().numel() / in;
  const DType dtype = x.value().dtype();
  const PlannedTensor y = tensor(rows * out, dtype);
  product({rows, out, in, false, true, dtype, dtype, dtype});
  const auto backward = [*this, x = x.value(), w, rows, in, out,
                         dtype](std::span<const PlannedTensor> dys) -> PlannedGrads {
    PlannedGrads grads = {x.like(), {}};
    product({rows, in, out, false, false, dtype, dtype, dtype});
    grads[1] = weight_gradient(w, dys[0], x, rows);
    return grads;
  };
  return record_planned(y, {x, w}, backward);
}

std::vector<PlannedVariable> PlannedOps::linears(const PlannedVariable& x,
                                                 const std::vector<PlannedVariable>& weights,
                                                 std::int64_t rows, std::optional<DType> out) const {
  const std::int64_t in = x.value().numel() / rows;
  const DType dtype = x.value().dtype(), result = out.value_or(dtype);
  std::vector<PlannedTensor> results;
  std::vector<PlannedVariable> inputs = {x};
  for (const PlannedVariable& w : weights) {
    const std::int64_t width = w.value().numel() / in;
    results.push_back(tensor(rows * width, result));
    product({rows, width, in, false, true, dtype, dtype, result});
    inputs.push_back(w);
  }
  const auto backward = [*this, x = x.value(), weights, rows, in, dtype,
                         result](std::span<const PlannedTensor> dys) -> PlannedGrads {
    PlannedGrads grads(weights.size() + 1);
    PlannedTensor dx;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!dys[i].defined()) continue;
      grads[i + 1] = weight_gradient(weights[i], dys[i], x, rows);
      if (!dx.defined()) dx = tensor(rows * in, DType::kFloat32);
      product({rows, in, weights[i].value().numel() / in, false, false, result, dtype, DType::kFloat32});
    }
    if (dx.defined()) grads[0] = dx.to(dtype);
    return grads;
  };
  return record_planned(std::move(results), inputs, backward);
}

PlannedTensor PlannedOps::weight_gradient(const PlannedVariable& w, const PlannedTensor& dy,
                                          const PlannedTensor& x, std::int64_t rows) const {
  PlannedTensor dw = w.grad().defined() ? w.grad() : tensor(w.value().numel(), DType::kFloat32);
  product({dy.numel() / rows, x.numel() / rows, rows, true, false, dy.dtype(), x.dtype(), DType::kFloat32});
  return dw;
}

void PlannedOps::product(const Product& p) const {
  if (on_cpu()) return cpu_product(p);
  // bfloat16 factors are multiplied as they are, any other pair in float32.
  if (p.a == DType::kBFloat16 && p.b == DType::kBFloat16) return;
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const auto widened = [&](DType dtype, std::int64_t numel) {
    return dtype == DType::kFloat32 ? PlannedTensor() : tensor(numel, DType::kFloat32);
  };
  const PlannedTensor a = widened(p.a, p.m * p.k), b = widened(p.b, p.k * p.n), c = widened(p.c, p.m * p.n);
}

void PlannedOps::cpu_product(const Product& p) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const auto widened = [&](DType dtype, std::int64_t numel) {
    return dtype == DType::kFloat32 ? PlannedTensor() : tensor(numel, DType::kFloat32);
  };
  const PlannedTensor a = widened(p.a, p.m * p.k), b = widened(p.b, p.k * p.n), c = widened(p.c, p.m * p.n);
  workspace(static_cast<std::int64_t>(matmul_scratch_bytes(p.m, p.n, p.k, p.transpose_a, p.transpose_b)));
}

}  // namespace moh
