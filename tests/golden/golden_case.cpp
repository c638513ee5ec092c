#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>

namespace moh::test {

namespace {

double largest(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  double top = 0;
  for (double v : wide.span<double>()) top = std::max(top, std::abs(v));
  return top;
}

std::string first_prefix(const std::string& name) {
  return name.substr(0, name.find('.'));
}

/// Allowed difference of a result of that type, in proportion to each element.
double relative_tolerance(DType dtype) {
  if (!is_floating(dtype)) return 0;
  return dtype == DType::kFloat64 ? 1e-10 : 2e-4;
}

}  // namespace

GoldenCase::GoldenCase(const std::filesystem::path& path) : file_(path) {
  const auto& metadata = file_.metadata();
  const auto text = [&](std::string_view key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  kind_ = text("kind");
  if (const std::string json = text("config"); !json.empty()) config_ = nlohmann::json::parse(json);
  if (const std::string json = text("float64_abs_error"); !json.empty())
    float64_errors_ = nlohmann::json::parse(json);
  if (const std::string number = text("min_gap"); !number.empty()) min_gap_ = std::stod(number);
  for (const WeightInfo& entry : file_.tensors()) {
    if (!entry.name.starts_with("grad")) continue;
    double& scale = gradient_scales_[first_prefix(entry.name)];
    scale = std::max(scale, largest(file_.tensor(entry)));
  }
}

std::vector<std::string> GoldenCase::names(std::string_view prefix) const {
  std::vector<std::string> found;
  for (const WeightInfo& entry : file_.tensors()) {
    if (entry.name.starts_with(prefix)) found.push_back(entry.name);
  }
  return found;
}

std::vector<std::string> GoldenCase::results() const {
  std::vector<std::string> found;
  for (const WeightInfo& entry : file_.tensors()) {
    const std::string prefix = first_prefix(entry.name);
    if (prefix != "in" && prefix != "param" && prefix != "w") found.push_back(entry.name);
  }
  return found;
}

void GoldenCase::load(const Module& module, const std::string& prefix) const {
  for (const NamedParameter& p : module.parameters()) p.variable.value().copy_from(tensor(prefix + p.name));
}

double GoldenCase::allowance(const std::string& name, const Tensor& expected) const {
  if (expected.dtype() != DType::kFloat32) return 0;
  const auto scale = gradient_scales_.find(first_prefix(name));
  return 2e-5 * largest(expected) + 20 * float64_errors_.value(name, 0.0) +
         (scale == gradient_scales_.end() ? 0 : 2e-7 * scale->second);
}

void GoldenCase::check(const std::string& name, const Tensor& mine) const {
  INFO(file_.path() << ": " << name);
  const Tensor expected = tensor(name);
  REQUIRE(to_string(mine.shape()) == to_string(expected.shape()));
  const double relative = relative_tolerance(expected.dtype()), absolute = allowance(name, expected);
  const Tensor a = mine.to(DType::kFloat64), b = expected.to(DType::kFloat64);
  double worst = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double t = b.data<double>()[i];
    const double share = std::abs(a.data<double>()[i] - t) / (relative * std::abs(t) + absolute + 1e-300);
    worst = std::isnan(share) ? HUGE_VAL : std::max(worst, share);
  }
  CHECK(worst <= 1.0);
  compared_.insert(name);
}

void GoldenCase::check(const std::string& name, double mine) const {
  check(name, full({}, mine, DType::kFloat64));
}

void GoldenCase::check_gradients(const Module& module, const std::string& prefix) const {
  for (const NamedParameter& p : module.parameters()) {
    const Tensor grad =
        p.variable.grad().defined() ? p.variable.grad() : zeros(p.variable.shape(), DType::kFloat32);
    if (has(prefix + p.name)) {
      check(prefix + p.name, grad);
    } else {
      INFO(file_.path() << ": " << prefix << p.name << " has no gradient in the reference");
      CHECK(largest(grad) == 0.0);
    }
  }
}

double weighted_sum(const Tensor& values, const Tensor& weights) {
  double sum = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i)
    sum += double{values.data<float>()[i]} * double{weights.data<float>()[i]};
  return sum;
}

void zero_gradients(const Module& module) {
  for (NamedParameter& p : module.parameters()) p.variable.zero_grad();
}

}  // namespace moh::test
