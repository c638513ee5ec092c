#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/layers/attention_observer.h"
#include "models/layers/head_routing.h"
#include "models/module.h"

/// Layers that a script computes in plain float64: tests/golden/FOLDER/make.py writes layers.json beside it.
namespace moh::test {

using Json = nlohmann::json;

inline Json golden_layers(const std::string& folder) {
  return Json::parse(std::ifstream(std::string(MOH_SOURCE_DIR) + "/tests/golden/" + folder + "/layers.json"));
}

/// The rows as a tensor of a shape, by default that of a matrix.
inline Tensor tensor_of_rows(const Json& json, Shape shape = {}) {
  const auto rows = json.get<std::vector<std::vector<double>>>();
  std::vector<double> all;
  for (const std::vector<double>& row : rows) all.insert(all.end(), row.begin(), row.end());
  if (shape.rank() == 0)
    shape = {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())};
  return tensor_of<double>(shape, all);
}

class SeenGates : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override { gates = trace.choice->gates.value(); }
  Tensor gates;
};

inline void check_close(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.numel() == expected.numel());
  for (std::int64_t i = 0; i < found.numel(); ++i)
    CHECK(found.data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-10).margin(1e-12));
}

inline double dot(const Tensor& a, const Tensor& b) {
  REQUIRE(a.numel() == b.numel());
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

/// Checks the gradients of the leaves along the case's directions, and clears them. A leaf without a gradient
/// has none to have.
inline void check_derivatives(std::vector<NamedParameter>& leaves, const Json& golden_case,
                              std::size_t number) {
  for (NamedParameter& leaf : leaves) {
    INFO(leaf.name << ", derivative " << number);
    const Tensor gradient = leaf.variable.grad();
    const double along =
        gradient.defined() ? dot(gradient, tensor_of_rows(golden_case["directions"][leaf.name])) : 0.0;
    CHECK(along ==
          Approx(golden_case["derivatives"][leaf.name][number].get<double>()).epsilon(1e-6).margin(1e-8));
    leaf.variable.zero_grad();
  }
}

}  // namespace moh::test
