#include "tests/ops/op_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "core/random.h"

namespace moh::test {

namespace {

struct Registered {
  std::string op;
  OpCases (*cases)();
};

std::vector<Registered>& registry() {
  static std::vector<Registered> entries;
  return entries;
}

/// Outputs and input gradients of one run.
struct Result {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  std::size_t num_outputs = 0;
};

std::vector<Tensor> converted(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    result.push_back(input.defined() && is_floating(input.dtype()) ? input.to(dtype) : input);
  }
  return result;
}

Result run(const OpCase& op_case, const std::vector<Tensor>& inputs) {
  Inputs leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.defined() ? Variable(input, is_floating(input.dtype())) : Variable());
  }
  const Outputs outputs = op_case.run(leaves);
  Result result;
  Outputs reached;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    result.tensors.push_back(outputs[i].value().clone());
    result.names.push_back("output " + std::to_string(i));
    if (!outputs[i].requires_grad()) continue;
    Tensor seed = empty(outputs[i].shape(), DType::kFloat64);
    fill_normal(seed, {99, i}, 0.0, 1.0);
    // Rounded to bfloat16 first, so that every precision is given the same seed.
    seeds.push_back(seed.to(DType::kBFloat16).to(outputs[i].dtype()));
    reached.push_back(outputs[i]);
  }
  result.num_outputs = outputs.size();
  backward(reached, seeds);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
    result.tensors.push_back(leaves[i].grad());
    result.names.push_back("gradient of input " + std::to_string(i));
  }
  return result;
}

double largest(const Tensor& tensor) {
  double top = 0.0;
  const Tensor wide = tensor.to(DType::kFloat64);
  for (double value : wide.span<double>()) top = std::max(top, std::abs(value));
  return top;
}

/// |found - expected| <= tolerance, elementwise; a NaN is never close.
void check_close(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what) {
  INFO(what);
  REQUIRE(found.shape() == expected.shape());
  const Tensor a = found.to(DType::kFloat64), b = expected.to(DType::kFloat64);
  double worst = 0.0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double error = std::abs(a.data<double>()[i] - b.data<double>()[i]);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  CHECK(worst <= tolerance);
}

bool same_bits(const Result& a, const Result& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].bytes() != b.tensors[i].bytes()) return false;
    if (std::memcmp(a.tensors[i].raw(), b.tensors[i].raw(), a.tensors[i].bytes()) != 0) return false;
  }
  return true;
}

void check_reference(const OpCase& op_case) {
  if (!op_case.reference) return;
  const Result result = run(op_case, op_case.inputs);
  const std::vector<Tensor> expected = op_case.reference(op_case.inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].defined())
      check_close(result.tensors[i], expected[i], 1e-12, result.names[i] + " in float64");
  }
}

void check_precision(const OpCase& op_case, DType dtype, double unit) {
  const std::vector<Tensor> inputs = converted(op_case.inputs, dtype);
  // The float64 run starts from the rounded inputs, so that only the op's own rounding shows.
  const Result exact = run(op_case, converted(inputs, DType::kFloat64));
  const Result rounded = run(op_case, inputs);
  REQUIRE(exact.tensors.size() == rounded.tensors.size());
  // Gradients share one scale: one that cancels to nearly nothing carries the rounding of its terms.
  double gradient_scale = 1e-6;
  for (std::size_t i = exact.num_outputs; i < exact.tensors.size(); ++i) {
    gradient_scale = std::max(gradient_scale, largest(exact.tensors[i]));
  }
  for (std::size_t i = 0; i < exact.tensors.size(); ++i) {
    if (!is_floating(exact.tensors[i].dtype())) continue;
    const double scale = i < exact.num_outputs ? std::max(largest(exact.tensors[i]), 1e-6) : gradient_scale;
    check_close(rounded.tensors[i], exact.tensors[i], op_case.units * unit * scale,
                rounded.names[i] + " in " + std::string(dtype_name(dtype)));
  }
}

void check_repeatable(const OpCase& op_case) {
  const std::vector<Tensor> inputs =
      op_case.low_precision ? converted(op_case.inputs, DType::kFloat32) : op_case.inputs;
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

}  // namespace

void check_op_case(const OpCase& op_case) {
  INFO("case " << op_case.name);
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (!cpu_has_isa(isa)) continue;
    INFO("instruction set " << cpu_isa_name(isa));
    const CpuIsaScope scope(isa);
    check_reference(op_case);
    if (op_case.low_precision) {
      check_precision(op_case, DType::kFloat32, 0x1p-24);
      check_precision(op_case, DType::kBFloat16, 0x1p-9);
    }
    check_repeatable(op_case);
  }
  if (!has_floating_elements(op_case.inputs)) return;  // nothing that gradcheck could change
  const GradCheckReport report = gradcheck(op_case.run, op_case.inputs, op_case.gradcheck);
  INFO(report.message);
  CHECK(report.passed);
}

bool register_op_cases(const std::string& op, OpCases (*cases)()) {
  registry().push_back({op, cases});
  return true;
}

OpCases all_op_cases() {
  OpCases all;
  for (const Registered& entry : registry()) {
    for (OpCase& op_case : entry.cases()) all.push_back(std::move(op_case));
  }
  return all;
}

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = empty(shape, DType::kFloat64);
  fill_normal(tensor, {seed, 7}, 0.0, 1.0);
  return tensor;
}

Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed) {
  Tensor tensor = empty(shape, DType::kFloat64);
  fill_uniform(tensor, {seed, 8}, low, high);
  return tensor;
}

}  // namespace moh::test
