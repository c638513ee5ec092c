#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

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

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(MOH_SOURCE_DIR) / "tests/golden/data"};
  if (const char* shared = std::getenv("MOH_SHARED"))
    folders.push_back(std::filesystem::path(shared) / "golden");
  std::vector<std::filesystem::path> files;
  for (const auto& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

GoldenCase::GoldenCase(const std::filesystem::path& path) : file_(path) {
  const auto& metadata = file_.metadata();
  if (!metadata.contains("config")) return;
  config_ = nlohmann::json::parse(metadata.find("config")->second);
  if (metadata.contains("kind")) kind_ = metadata.find("kind")->second;
  if (const auto errors = metadata.find("float64_abs_error"); errors != metadata.end())
    float64_errors_ = nlohmann::json::parse(errors->second);
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

void GoldenCase::load(const Module& module, const std::string& prefix) const {
  for (const NamedParameter& p : module.parameters()) p.variable.value().copy_from(tensor(prefix + p.name));
}

void GoldenCase::check(const std::string& name, const Tensor& mine) const {
  INFO(file_.path() << ": " << name);
  const Tensor expected = tensor(name);
  REQUIRE(to_string(mine.shape()) == to_string(expected.shape()));
  const double error = float64_errors_.value(name, 0.0);
  const auto scale = gradient_scales_.find(first_prefix(name));
  const double floor =
      2e-5 * largest(expected) + 20 * error + (scale == gradient_scales_.end() ? 0 : 2e-7 * scale->second);
  const Tensor a = mine.to(DType::kFloat64), b = expected.to(DType::kFloat64);
  double worst = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double t = b.data<double>()[i];
    const double share = std::abs(a.data<double>()[i] - t) / (2e-4 * std::abs(t) + floor + 1e-300);
    worst = std::isnan(share) ? HUGE_VAL : std::max(worst, share);
  }
  CHECK(worst <= 1.0);
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

void for_each_golden(std::string_view kind, const std::function<void(const GoldenCase&)>& body) {
  int count = 0;
  for (const std::filesystem::path& path : golden_files()) {
    const GoldenCase golden(path);
    if (golden.kind() != kind) continue;
    INFO("golden case " << path);
    body(golden);
    ++count;
  }
  REQUIRE(count > 0);
}

}  // namespace moh::test
