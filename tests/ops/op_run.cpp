#include "tests/ops/op_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/random.h"
#include "tests/support/same_bits.h"

namespace moh::test {

namespace {

double largest(const Tensor& tensor) {
  double top = 0.0;
  const Tensor wide = tensor.to(DType::kFloat64);
  for (double value : wide.span<double>()) top = std::max(top, std::abs(value));
  return top;
}

}  // namespace

std::vector<Tensor> converted(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    result.push_back(input.defined() && is_floating(input.dtype()) ? input.to(dtype) : input);
  }
  return result;
}

Result run(const OpCase& op_case, const std::vector<Tensor>& inputs, Device device) {
  Inputs leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.defined() ? Variable(input.to(device), is_floating(input.dtype())) : Variable());
  }
  const Outputs outputs = op_case.run(leaves);
  Result result;
  Outputs reached;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    result.tensors.push_back(outputs[i].value().clone().to(kCpu));
    result.names.push_back("output " + std::to_string(i));
    if (!outputs[i].requires_grad()) continue;
    Tensor seed = empty(outputs[i].shape(), DType::kFloat64);
    fill_normal(seed, {99, i}, 0.0, 1.0);
    // Rounded to bfloat16 first, so that every precision is given the same seed.
    seed = seed.to(DType::kBFloat16);
    seeds.push_back(seed.to(outputs[i].dtype()).to(device));
    result.cotangents.push_back(seed.to(DType::kFloat64));
    reached.push_back(outputs[i]);
  }
  result.num_outputs = outputs.size();
  backward(reached, seeds);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
    result.tensors.push_back(leaves[i].grad().to(kCpu));
    result.names.push_back("gradient of input " + std::to_string(i));
  }
  return result;
}

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

void check_result(const Result& found, const Result& expected, const OpCase& op_case, double unit,
                  const std::string& what) {
  REQUIRE(expected.tensors.size() == found.tensors.size());
  double gradient_scale = op_case.gradient_scale;
  for (std::size_t i = expected.num_outputs; i < expected.tensors.size(); ++i) {
    gradient_scale = std::max(gradient_scale, largest(expected.tensors[i]));
  }
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    if (!is_floating(expected.tensors[i].dtype())) continue;
    const double scale =
        i < expected.num_outputs ? std::max(largest(expected.tensors[i]), 1e-6) : gradient_scale;
    check_close(found.tensors[i], expected.tensors[i], op_case.units * unit * scale,
                found.names[i] + " in " + what);
  }
}

bool same_bits(const Result& a, const Result& b) {
  return same_bits(a.tensors, b.tensors);
}

}  // namespace moh::test
