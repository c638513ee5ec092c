// Attention layers with other routings than that of heads against plain loops of Python, in float64:
// tests/golden/within_groups/make.py, tests/golden/gqe/make.py and tests/golden/routed_keys/make.py.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/llm/llama_layers.h"
#include "tests/golden/llama_layer.h"

using namespace moh;
using namespace moh::test;

namespace {

LlamaConfig routed_config(const Json& file, const Json& golden_case) {
  LlamaConfig c = one_layer(file, golden_case);
  c.moh.router = golden_case["router"] == "learned" ? routers::kLearned : routers::kQueryNorm;
  if (golden_case.contains("positions")) {
    c.moh.routed = RoutedRows::kQueriesKeysValues;
    c.moh.positions = golden_case["positions"] == "head" ? HeadPositions::kHead : HeadPositions::kSequence;
    c.moh.shared_window = golden_case["shared_window"];
  } else {
    c.moh.routing = golden_case.contains("routing") ? routings::kGqe : routings::kWithinGroups;
  }
  const Json& sizes = file.contains("shared") ? file : golden_case;
  c.moh.shared_heads.every = sizes["shared"].get<std::vector<std::int64_t>>();
  c.moh.num_shared = static_cast<std::int64_t>(c.moh.shared_heads.every.size());
  c.moh.top_k = sizes["top_k"].get<std::int64_t>();
  c.moh.two_stage = golden_case["two_stage"];
  if (golden_case["scaling"] == "paper") c.moh.gate_scaling = GateScaling::kPaper;
  if (golden_case["form"] == "paper") c.moh.balance_loss = BalanceLoss::kPaper;
  return c;
}

/// Checks outputs, gates, load-balance loss and gradients of a file's cases.
void check_layers(const Json& file) {
  const std::int64_t tokens = file["tokens"], width = file["width"];
  const RopeTable table = rope_table(tokens, file["head_dim"], file["theta"], DType::kFloat64, kCpu);
  for (const Json& each : file["cases"]) {
    INFO(each["router"] << ", " << each["scaling"]);
    const LlamaAttention layer(routed_config(file, each), 0, Placement(DType::kFloat64));
    const Json& tensors = each["tensors"];
    for (const NamedParameter& p : layer.parameters())
      p.variable.value().copy_from(tensor_of_rows(tensors[p.name]));
    const Shape shape{1, tokens, width};
    const Variable x(tensor_of_rows(tensors["x"], shape), true);
    SeenGates seen;
    const LayerOutput output = layer.forward(x, table, {.observer = &seen});
    check_close(output.y.value(), tensor_of_rows(each["outputs"]));
    check_close(seen.gates, tensor_of_rows(each["gates"]));
    CHECK(output.routing->balance.value().item() == Approx(each["balance"].get<double>()).epsilon(1e-12));
    if (!each.contains("derivatives")) continue;
    std::vector<NamedParameter> leaves = layer.parameters();
    leaves.push_back({"x", x});
    output.y.backward(tensor_of_rows(each["cotangent"], shape));
    check_derivatives(leaves, each, 0);
    layer.forward(x, table).routing->balance.backward();
    check_derivatives(leaves, each, 1);
  }
}

}  // namespace

TEST_CASE("golden: attention inside KV groups, gates, load-balance loss and gradients") {
  check_layers(golden_layers("within_groups"));
}

TEST_CASE("golden: grouped query experts, weights, load-balance loss and gradients") {
  check_layers(golden_layers("gqe"));
}

TEST_CASE("golden: routed keys and values, gates, load-balance loss and gradients") {
  check_layers(golden_layers("routed_keys"));
}
