#include "ops/modulation.h"

#include <string>

#include "autograd/gradient_target.h"
#include "ops/op.h"

namespace moh {

void check_modulation(std::string_view op, const Variable& x, const Variable& modulation, std::int64_t first,
                      std::int64_t count) {
  Check check(op);
  check.floating("x", x).min_rank("x", x, 2).rank("modulation", modulation, 3);
  check.shape("modulation", modulation, {x.dim(0), modulation.dim(1), x.dim(-1)}, "first and last axis of x");
  check.like("modulation", modulation, "x", x);
  const std::int64_t last = modulation.dim(1) - count;
  check.require(last >= 0, "modulation", std::to_string(count) + " rows or more",
                to_string(modulation.shape()));
  check.in_range("row of modulation", static_cast<double>(first), 0, static_cast<double>(last));
}

ModulationGradient::ModulationGradient(const Tensor& modulation, std::size_t input)
    : adds_(modulation.device() != kCpu) {
  if (adds_) all_ = gradient_sum_of_input(input);
  if (all_.defined()) return;
  const DType dtype = adds_ ? modulation.dtype() : accumulate_dtype(modulation.dtype());
  all_ = zeros(modulation.shape(), dtype, modulation.device());
}

}  // namespace moh
