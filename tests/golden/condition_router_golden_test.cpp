// Heads chosen by the condition of a sample against plain loops of Python
// (tests/golden/condition_router/make.py), in float64.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/layers/moh_attention.h"
#include "models/layers/moh_config.h"
#include "tests/golden/json_layers.h"

using namespace moh;
using namespace moh::test;

namespace {

MohAttentionOptions attention_options(const Json& file, const Json& golden_case) {
  MohConfig moh;
  moh.router = routers::kCondition;
  moh.shared_heads.every = file["shared"].get<std::vector<std::int64_t>>();
  moh.num_shared = static_cast<std::int64_t>(moh.shared_heads.every.size());
  moh.top_k = file["top_k"].get<std::int64_t>();
  moh.two_stage = golden_case["two_stage"];
  if (golden_case["scaling"] == "paper") moh.gate_scaling = GateScaling::kPaper;
  if (golden_case["form"] == "paper") moh.balance_loss = BalanceLoss::kPaper;
  const std::int64_t heads = file["heads"];
  return {file["width"], heads, file["head_dim"], routing_of(moh, heads, 0)};
}

/// Gates [B, H] of a sample, for each of its T tokens.
Tensor of_tokens(const Tensor& gates, std::int64_t tokens) {
  const std::int64_t heads = gates.dim(1);
  Tensor all = empty({gates.dim(0), tokens, heads}, DType::kFloat64);
  for (std::int64_t i = 0; i < all.numel(); ++i)
    all.data<double>()[i] = gates.data<double>()[i / (tokens * heads) * heads + i % heads];
  return all;
}

}  // namespace

TEST_CASE("golden: heads chosen by the condition of a sample: gates, load-balance loss and gradients") {
  const Json file = golden_layers("condition_router");
  const Shape shape{file["batch"], file["tokens"], file["width"]};
  for (const Json& each : file["cases"]) {
    INFO(each["scaling"]);
    const MohAttention layer(attention_options(file, each), Placement(DType::kFloat64));
    const Json& tensors = each["tensors"];
    for (const NamedParameter& p : layer.parameters())
      p.variable.value().copy_from(tensor_of_rows(tensors[p.name], p.variable.shape()));
    const Variable x(tensor_of_rows(tensors["x"], shape), true);
    const Variable condition(tensor_of_rows(tensors["condition"]), true);
    SeenGates seen;
    const LayerOutput output = layer.forward(x, {.observer = &seen}, condition);
    check_close(output.y.value(), tensor_of_rows(each["outputs"]));
    check_close(seen.gates, of_tokens(tensor_of_rows(each["gates"]), shape[1]));
    CHECK(output.routing->balance.value().item() == Approx(each["balance"].get<double>()).epsilon(1e-12));
    std::vector<NamedParameter> leaves = layer.parameters();
    leaves.push_back({"x", x});
    leaves.push_back({"condition", condition});
    output.y.backward(tensor_of_rows(each["cotangent"], shape));
    check_derivatives(leaves, each, 0);
    layer.forward(x, {}, condition).routing->balance.backward();
    check_derivatives(leaves, each, 1);
  }
}
