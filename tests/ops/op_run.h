#pragma once

#include "tests/ops/op_cases.h"

namespace moh::test {

/// Outputs and input gradients of one run.
struct Result {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  std::size_t num_outputs = 0;
  std::vector<Tensor> cotangents;  ///< of the outputs that have gradients, in float64
};

/// Floating inputs in `dtype`, all others as they are.
std::vector<Tensor> converted(const std::vector<Tensor>& inputs, DType dtype);

/// Runs a case forward and, from the same random cotangents in every precision, backward, on `device`. What
/// comes back is on the CPU.
Result run(const OpCase& op_case, const std::vector<Tensor>& inputs, Device device = kCpu);

/// |found - expected| <= tolerance, elementwise; a NaN is never close.
void check_close(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what);

/// |found - expected| <= op_case.units * unit, relative to the largest magnitude: that of the output, or that
/// of all gradients, since one that cancels to nearly nothing carries the rounding of its terms.
void check_result(const Result& found, const Result& expected, const OpCase& op_case, double unit,
                  const std::string& what);

/// The root mean square error of each output and gradient that `rounded` has is at most twice that of
/// `reference`, which computes in float32 from the same inputs. A quarter of `unit` of the largest magnitude
/// is allowed beside it, for sums of a few terms, where the difference is one of chance.
void check_error_ratio(const Result& rounded, const Result& reference, const Result& exact,
                       const OpCase& op_case, double unit);

bool same_bits(const Result& a, const Result& b);

}  // namespace moh::test
