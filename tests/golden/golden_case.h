#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "models/module.h"
#include "train/base/formats/safetensors.h"

namespace moh::test {

/// One file of reference numbers; see tests/golden/data/README.md.
class GoldenCase {
 public:
  explicit GoldenCase(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::string& kind() const { return kind_; }
  const nlohmann::json& config() const { return config_; }
  /// The smallest distance between the last selected gate and the first one that is not, over all tokens
  /// whose choice the gates decide.
  double min_gap() const { return min_gap_; }

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  Tensor tensor(const std::string& name) const { return file_.tensor(name); }
  /// Names of the tensors that start with `prefix`.
  std::vector<std::string> names(std::string_view prefix) const;
  /// Names of those that are results of the reference: outputs, intermediate values, gradients and tables.
  std::vector<std::string> results() const;

  /// Copies `prefix` + name into each parameter of the module; every parameter must be in the file.
  void load(const Module& module, const std::string& prefix) const;
  /// Checks a result against the tensor `name`, at the tolerance that the README states for its type.
  void check(const std::string& name, const Tensor& mine) const;
  void check(const std::string& name, double mine) const;
  /// Checks the gradients of all parameters against `prefix` + name. A parameter that the file lists no
  /// gradient for must have none, or zeros.
  void check_gradients(const Module& module, const std::string& prefix) const;

  /// For a tensor that is compared in another way than by check().
  void mark_compared(const std::string& name) const { compared_.insert(name); }
  bool was_compared(const std::string& name) const { return compared_.contains(name); }

 private:
  double allowance(const std::string& name, const Tensor& expected) const;

  SafetensorsFile file_;
  std::string kind_;
  nlohmann::json config_;
  double min_gap_ = 1e-4;  // no file has a smaller one
  nlohmann::json float64_errors_ = nlohmann::json::object();
  std::map<std::string, double> gradient_scales_;  // by first prefix: "grad", "grad_lb" ...
  mutable std::set<std::string> compared_;
};

/// Weight of the load-balance loss in the reference's loss.
inline constexpr double kBalanceWeight = 0.01;

/// The name of an intermediate value of layer or stage i.
inline std::string numbered(const std::string& what, std::size_t i) {
  return "inter." + what + std::to_string(i);
}

/// The reference's scalar test loss: the sum of `values` times `weights`, float32, in float64.
double weighted_sum(const Tensor& values, const Tensor& weights);

void zero_gradients(const Module& module);

}  // namespace moh::test
