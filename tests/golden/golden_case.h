#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "models/module.h"
#include "train/formats/safetensors.h"

namespace moh::test {

/// One file of reference numbers; see tests/golden/data/README.md.
class GoldenCase {
 public:
  explicit GoldenCase(const std::filesystem::path& path);

  const std::string& kind() const { return kind_; }
  const nlohmann::json& config() const { return config_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  Tensor tensor(const std::string& name) const { return file_.tensor(name); }
  /// Names of the tensors that start with `prefix`.
  std::vector<std::string> names(std::string_view prefix) const;

  /// Copies `prefix` + name into each parameter of the module; every parameter must be in the file.
  void load(const Module& module, const std::string& prefix) const;
  /// Checks a result against the tensor `name`, at the tolerance that the README states.
  void check(const std::string& name, const Tensor& mine) const;
  /// Checks the gradients of all parameters against `prefix` + name. A parameter that the file lists no
  /// gradient for must have none, or zeros.
  void check_gradients(const Module& module, const std::string& prefix) const;

 private:
  SafetensorsFile file_;
  std::string kind_;
  nlohmann::json config_;
  nlohmann::json float64_errors_ = nlohmann::json::object();
  std::map<std::string, double> gradient_scales_;  // by first prefix: "grad", "grad_lb" ...
};

/// Runs `body` on every case of that kind: those in tests/golden/data, then those in $MOH_SHARED/golden.
/// Fails when there is none.
void for_each_golden(std::string_view kind, const std::function<void(const GoldenCase&)>& body);

}  // namespace moh::test
