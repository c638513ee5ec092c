// Attention inside KV groups against plain loops of Python (tests/golden/within_groups/make.py), in float64.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/layers/attention_observer.h"
#include "models/llm/llama_layers.h"

using namespace moh;

namespace {

using Json = nlohmann::json;
using Rows = std::vector<std::vector<double>>;

Json golden() {
  return Json::parse(std::ifstream(std::string(MOH_SOURCE_DIR) + "/tests/golden/within_groups/layers.json"));
}

/// The rows as a tensor of a shape, by default that of a matrix.
Tensor tensor(const Json& json, Shape shape = {}) {
  const auto rows = json.get<Rows>();
  std::vector<double> all;
  for (const std::vector<double>& row : rows) all.insert(all.end(), row.begin(), row.end());
  if (shape.rank() == 0)
    shape = {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())};
  return tensor_of<double>(shape, all);
}

LlamaConfig config_of(const Json& file, const Json& golden_case) {
  LlamaConfig c;
  c.layers = 1;
  c.hidden = file["width"];
  c.heads = file["heads"];
  c.kv_heads = file["kv_heads"];
  c.head_dim = file["head_dim"];
  c.moh.router = golden_case["router"] == "learned" ? routers::kLearned : routers::kQueryNorm;
  c.moh.routing = routings::kWithinGroups;
  c.moh.shared_heads.every = file["shared"].get<std::vector<std::int64_t>>();
  c.moh.num_shared = static_cast<std::int64_t>(c.moh.shared_heads.every.size());
  c.moh.top_k = file["top_k"].get<std::int64_t>();
  c.moh.two_stage = golden_case["two_stage"];
  if (golden_case["scaling"] == "paper") c.moh.gate_scaling = GateScaling::kPaper;
  if (golden_case["form"] == "paper") c.moh.balance_loss = BalanceLoss::kPaper;
  return c;
}

class SeenGates : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override { gates = trace.choice->gates.value(); }
  Tensor gates;
};

void check_close(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.numel() == expected.numel());
  for (std::int64_t i = 0; i < found.numel(); ++i)
    CHECK(found.data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-10).margin(1e-12));
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

/// Checks the gradients of the leaves along the case's directions, and clears them. A leaf without a gradient
/// has none to have.
void check_derivatives(std::vector<NamedParameter>& leaves, const Json& golden_case, std::size_t number) {
  for (NamedParameter& leaf : leaves) {
    INFO(leaf.name << ", derivative " << number);
    const Tensor gradient = leaf.variable.grad();
    const double along =
        gradient.defined() ? dot(gradient, tensor(golden_case["directions"][leaf.name])) : 0.0;
    CHECK(along ==
          Approx(golden_case["derivatives"][leaf.name][number].get<double>()).epsilon(1e-6).margin(1e-8));
    leaf.variable.zero_grad();
  }
}

}  // namespace

TEST_CASE("golden: attention inside KV groups, gates, load-balance loss and gradients") {
  const Json file = golden();
  const std::int64_t tokens = file["tokens"], width = file["width"];
  const RopeTable table = rope_table(tokens, file["head_dim"], file["theta"], DType::kFloat64, kCpu);
  for (const Json& each : file["cases"]) {
    INFO(each["router"] << ", " << each["scaling"]);
    const LlamaAttention layer(config_of(file, each), 0, Placement(DType::kFloat64));
    const Json& tensors = each["tensors"];
    for (const NamedParameter& p : layer.parameters()) p.variable.value().copy_from(tensor(tensors[p.name]));
    const Shape shape{1, tokens, width};
    const Variable x(tensor(tensors["x"], shape), true);
    SeenGates seen;
    const LayerOutput output = layer.forward(x, table, {.observer = &seen});
    check_close(output.y.value(), tensor(each["outputs"]));
    check_close(seen.gates, tensor(each["gates"]));
    CHECK(output.routing->balance.value().item() == Approx(each["balance"].get<double>()).epsilon(1e-12));
    if (!each.contains("derivatives")) continue;
    std::vector<NamedParameter> leaves = layer.parameters();
    leaves.push_back({"x", x});
    output.y.backward(tensor(each["cotangent"], shape));
    check_derivatives(leaves, each, 0);
    layer.forward(x, table).routing->balance.backward();
    check_derivatives(leaves, each, 1);
  }
}
