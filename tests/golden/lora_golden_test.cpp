// A layer with low-rank adapters against plain loops of Python (tests/golden/lora/make.py), in float64.

#include <catch2/catch.hpp>
#include <vector>

#include "models/llm/llama_layers.h"
#include "tests/golden/llama_layer.h"

using namespace moh;
using namespace moh::test;

namespace {

LlamaConfig adapted_config(const Json& file, const Json& golden_case) {
  LlamaConfig c = one_layer(file, golden_case);
  c.intermediate = file["inner"];
  c.norm_eps = file["eps"];
  c.lora = {.rank = golden_case["rank"], .alpha = golden_case["alpha"], .targets = golden_case["targets"]};
  if (golden_case["routed"])
    c.moh = {.router = routers::kLearned,
             .num_shared = file["shared"].get<std::int64_t>(),
             .top_k = file["top_k"].get<std::int64_t>()};
  return c;
}

}  // namespace

TEST_CASE("golden: a layer with low-rank adapters, dense and of selected heads, and its gradients") {
  const Json file = golden_layers("lora");
  CHECK(file["cases"].size() == 3);
  const std::int64_t tokens = file["tokens"];
  const RopeTable table = rope_table(tokens, file["head_dim"], file["theta"], DType::kFloat64, kCpu);
  for (const Json& each : file["cases"]) {
    INFO("rank " << each["rank"] << ", routed " << each["routed"]);
    const LlamaConfig config = adapted_config(file, each);
    const LlamaLayer layer(config, 0, Placement(DType::kFloat64));
    std::vector<NamedParameter> leaves = layer.parameters();
    CHECK(leaves.size() + 1 == each["tensors"].size());
    for (const NamedParameter& p : leaves)
      p.variable.value().copy_from(tensor_of_rows(each["tensors"][p.name], p.variable.shape()));
    const Shape shape{1, tokens, config.hidden};
    const Variable x(tensor_of_rows(each["tensors"]["x"], shape), true);
    const Variable y = layer.forward({x}, table, {}).stream.sum();
    check_close(y.value(), tensor_of_rows(each["outputs"]));
    y.backward(tensor_of_rows(each["cotangent"], shape));
    leaves.push_back({"x", x});
    for (const NamedParameter& leaf : leaves) CHECK(leaf.variable.grad().defined());
    check_derivatives(leaves, each, 0);
  }
}
