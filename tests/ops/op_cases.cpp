#include "tests/ops/op_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/gradcheck.h"
#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "tests/ops/op_run.h"
#include "tests/support/every_isa.h"

namespace moh::test {

namespace {

void check_reference(const OpCase& op_case) {
  if (!op_case.reference) return;
  const Result result = run(op_case, op_case.inputs);
  const std::vector<Tensor> expected = op_case.reference(op_case.inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].defined())
      check_close(result.tensors[i], expected[i], 1e-12, result.names[i] + " in float64");
  }
}

void check_gradients(const OpCase& op_case) {
  if (!op_case.gradients) return;
  const Result result = run(op_case, op_case.inputs);
  const std::vector<Tensor> expected = op_case.gradients(op_case.inputs, result.cotangents);
  REQUIRE(result.num_outputs + expected.size() == result.tensors.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t at = result.num_outputs + i;
    // A gradient may be a sum of thousands.
    check_close(result.tensors[at], expected[i], 1e-11, result.names[at] + " in float64");
  }
}

/// A unit of rounding to nearest.
double unit_of(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-9 : 0x1p-24;
}

void check_precision(const OpCase& op_case, DType dtype) {
  const std::vector<Tensor> inputs = converted(op_case.inputs, dtype);
  // The float64 run starts from the rounded inputs, so that only the op's own rounding shows.
  const Result exact = run(op_case, converted(inputs, DType::kFloat64)), found = run(op_case, inputs);
  check_result(found, exact, op_case, unit_of(dtype), std::string(dtype_name(dtype)));
  if (cpu_isa() == base_isa(cpu_isa())) return;
  const CpuIsaScope upcasting(base_isa(cpu_isa()));
  check_error_ratio(found, run(op_case, inputs), exact, op_case, unit_of(dtype));
}

void check_repeatable(const OpCase& op_case, DType dtype) {
  const std::vector<Tensor> inputs =
      op_case.low_precision ? converted(op_case.inputs, dtype) : op_case.inputs;
  const int threads = num_threads();
  set_num_threads(1);
  const Result one = run(op_case, inputs);
  set_num_threads(3);
  const Result three = run(op_case, inputs);
  const Result again = run(op_case, inputs);
  set_num_threads(threads);
  CHECK(same_bits(one, three));
  CHECK(same_bits(three, again));
}

bool has_floating_elements(const std::vector<Tensor>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
    return input.defined() && is_floating(input.dtype()) && input.numel() > 0;
  });
}

/// Large inputs are moved along directions: the time of a difference for each element grows like their
/// square.
void check_differences(const OpCase& op_case) {
  const GradCheckReport report = gradcheck(op_case.run, op_case.inputs, {.directions = 100});
  INFO(report.message);
  CHECK(report.passed);
}

}  // namespace

void check_op_case(const OpCase& op_case) {
  INFO("case " << op_case.name);
  // Central differences judge the gradients with one instruction set; those with the others are compared with
  // them.
  if (!op_case.gradients && has_floating_elements(op_case.inputs)) check_differences(op_case);
  const Result judged = run(op_case, op_case.inputs);
  for (const CpuIsa isa : every_isa()) {
    INFO("instruction set " << cpu_isa_name(isa));
    const CpuIsaScope scope(isa);
    if (op_case.low_precision) {
      check_precision(op_case, DType::kBFloat16);
      check_repeatable(op_case, DType::kBFloat16);
    }
    if (isa != base_isa(isa)) continue;  // all other types have the base's kernels
    check_reference(op_case);
    check_gradients(op_case);
    // Twice the unit, as both are rounded.
    check_result(run(op_case, op_case.inputs), judged, op_case, 0x1p-52, "float64");
    if (op_case.low_precision) check_precision(op_case, DType::kFloat32);
    check_repeatable(op_case, DType::kFloat32);
  }
}

}  // namespace moh::test
