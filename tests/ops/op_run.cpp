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

double root_mean_square_error(const Tensor& found, const Tensor& expected) {
  const Tensor a = found.to(DType::kFloat64), b = expected.to(DType::kFloat64);
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double error = a.data<double>()[i] - b.data<double>()[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(a.numel(), 1)));
}

/// The magnitudes by which errors of a result's tensors are measured: see check_result().
std::vector<double> scales_of(const Result& exact, const OpCase& op_case) {
  double gradient_scale = op_case.gradient_scale;
  for (std::size_t i = exact.num_outputs; i < exact.tensors.size(); ++i)
    gradient_scale = std::max(gradient_scale, largest(exact.tensors[i]));
  std::vector<double> scales(exact.tensors.size(), gradient_scale);
  for (std::size_t i = 0; i < exact.num_outputs; ++i) scales[i] = std::max(largest(exact.tensors[i]), 1e-6);
  return scales;
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
  const std::vector<double> scales = scales_of(expected, op_case);
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    if (!is_floating(expected.tensors[i].dtype())) continue;
    check_close(found.tensors[i], expected.tensors[i], op_case.units * unit * scales[i],
                found.names[i] + " in " + what);
  }
}

void check_error_ratio(const Result& rounded, const Result& reference, const Result& exact,
                       const OpCase& op_case, double unit) {
  const std::vector<double> scales = scales_of(exact, op_case);
  for (std::size_t i = 0; i < exact.tensors.size(); ++i) {
    if (!is_floating(exact.tensors[i].dtype())) continue;
    INFO(exact.names[i]);
    const double error = root_mean_square_error(rounded.tensors[i], exact.tensors[i]);
    CHECK(error <= 2 * root_mean_square_error(reference.tensors[i], exact.tensors[i]) + unit / 4 * scales[i]);
  }
}

bool same_bits(const Result& a, const Result& b) {
  return same_bits(a.tensors, b.tensors);
}

}  // namespace moh::test
