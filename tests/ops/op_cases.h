#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace moh::test {

using Inputs = std::vector<Variable>;
using Outputs = std::vector<Variable>;

/// One case of an op: inputs in float64 (and index tensors), the op, and what it should compute.
struct OpCase {
  std::string name;
  std::vector<Tensor> inputs;
  /// The op under test. Must accept float64, float32 and bfloat16 inputs.
  std::function<Outputs(const Inputs&)> run;
  /// The op in plain float64 loops, one tensor per output; undefined for outputs that are not compared.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> reference;
  /// Gradients of the floating inputs in plain float64 loops, from the inputs and the cotangents of the
  /// outputs: for large inputs, instead of central differences, whose time grows like the square of the
  /// elements.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::vector<Tensor>&)> gradients = {};
  /// Largest error of the float32 op, forward and backward, in units of 2^-24 times the largest magnitude of
  /// the tensor. The bfloat16 op gets the same number of units of 2^-9.
  double units = 16;
  /// The magnitude by which rounding of the gradients is measured, when they are smaller.
  double gradient_scale = 1e-6;
  /// False for ops whose result jumps (top-k, dropout masks that depend on rounded inputs): float64 only.
  bool low_precision = true;
  /// Why a GPU cannot run the case in this build, or where it runs; empty if it can.
  std::string absent_on_gpu = {};
};

/// Runs a case every way. On the CPU (op_cases.cpp): a gradient check in float64, and with every instruction
/// set that the processor has forward against the reference in float64, gradients against theirs or those
/// that were checked, float32 and bfloat16 forward and backward against float64, bit-equal reruns and
/// bit-equal results with one and with several threads; errors of kernels that multiply bfloat16 as such
/// against those that upcast it. On a GPU: device_op_cases.cpp.
void check_op_case(const OpCase& op_case);

using OpCases = std::vector<OpCase>;
/// Registers the cases of an op for the test that looks for ops without a gradient check.
bool register_op_cases(const std::string& op, OpCases (*cases)());
/// All registered cases.
OpCases all_op_cases();

/// float64 test data: standard normal, and uniform in [low, high).
Tensor normal(const Shape& shape, std::uint64_t seed = 1);
Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed = 1);

}  // namespace moh::test

/// OP_CASES(rms_norm) { return {{...}, {...}}; } defines the cases of an op and the test that runs them.
#define OP_CASES(op)                                                                                  \
  static moh::test::OpCases op##_cases();                                                             \
  [[maybe_unused]] static const bool op##_registered = moh::test::register_op_cases(#op, op##_cases); \
  TEST_CASE("ops: " #op, "[op_cases][every_isa]") {                                                   \
    for (const moh::test::OpCase& op_case : op##_cases()) moh::test::check_op_case(op_case);          \
  }                                                                                                   \
  static moh::test::OpCases op##_cases()
