// dit_moh_attention and moh_router_edges: MoH attention of the released MoH-DiT, outputs and gradients.

#include <algorithm>

#include "models/layers/moh_attention.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/moh/head_router.h"
#include "tests/golden/golden_case.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kBalanceWeight = 0.01;

struct Sizes {
  std::int64_t width, heads, head_dim, shared, top_k;
};

std::unique_ptr<MohAttention> make_layer(const Sizes& s) {
  return std::make_unique<MohAttention>(
      MohAttentionOptions{s.width, s.heads, s.head_dim, {RouterKind::kLearned, {s.heads, s.shared, s.top_k}}},
      DType::kFloat32);
}

Tensor top_of(const GoldenCase& golden, const std::string& name) {
  return golden.has(name) ? golden.tensor(name).to(DType::kInt32) : Tensor();
}

void zero_gradients(const Module& module, Variable& x) {
  for (NamedParameter& p : module.parameters()) p.variable.zero_grad();
  x.zero_grad();
}

/// `sub` is "" or "name."; with `forced` the reference's choice of heads replaces the router's.
void check_layer(const GoldenCase& golden, const Sizes& sizes, const std::string& sub, bool forced) {
  const auto layer = make_layer(sizes);
  golden.load(*layer, "param." + sub);
  Variable x(golden.tensor("in." + sub + "x"), true);
  const Tensor top = forced ? top_of(golden, "inter." + sub + "router0.topk_indices") : Tensor();

  const LayerOutput out = layer->forward(x, {.forced_top = {&top, 1}});
  golden.check("out." + sub + "y", out.y.value());
  const Variable balance = out.routing->balance;
  const Tensor balance_value = balance.defined() ? balance.value() : zeros({}, DType::kFloat32);
  golden.check("out." + sub + "lb_loss", balance_value);

  const Tensor w = golden.tensor("w." + sub + "y");
  std::vector<Variable> outputs = {out.y};
  std::vector<Tensor> seeds = {w};
  if (balance.defined()) {
    outputs.push_back(balance);
    seeds.push_back(full({}, kBalanceWeight, DType::kFloat32));
  }
  backward(outputs, seeds);
  golden.check_gradients(*layer, "grad.param." + sub);
  golden.check("grad.in." + sub + "x", x.grad());

  if (!balance.defined() || !golden.has("grad_lb.in." + sub + "x")) return;
  zero_gradients(*layer, x);
  layer->forward(x, {.forced_top = {&top, 1}}).routing->balance.backward();
  golden.check_gradients(*layer, "grad_lb.param." + sub);
  golden.check("grad_lb.in." + sub + "x", x.grad());
}

void check_gates(const GoldenCase& golden, const std::string& router, std::int64_t tokens) {
  const Tensor gates = golden.tensor(router + ".gates"), indices = golden.tensor(router + ".topk_indices");
  const std::int64_t experts = gates.dim(1), k = indices.dim(1);
  // Logits are the logarithms of the gates, up to a constant that softmax does not see.
  Tensor logits = gates.clone();
  for (float& v : logits.span<float>()) v = std::log(v);
  const Routing r = route_heads({}, Variable(logits), {}, tokens, {experts, 0, k});
  golden.check(router + ".gates", r.probabilities);
  golden.check(router + ".topk_indices", r.top);
}

}  // namespace

TEST_CASE("golden: dit_moh_attention") {
  for_each_golden("dit_moh_attention", [](const GoldenCase& golden) {
    const auto& c = golden.config();
    const Sizes sizes{c.at("dim"), c.at("num_heads"), c.at("head_dim"), c.at("shared_head"),
                      c.at("routed_head")};
    check_layer(golden, sizes, "", /*forced=*/false);
    const std::int64_t tokens = c.at("B").get<std::int64_t>() * c.at("N").get<std::int64_t>();
    if (sizes.top_k > 0) check_gates(golden, "inter.router0", tokens);
  });
}

TEST_CASE("golden: moh_router_edges") {
  for_each_golden("moh_router_edges", [](const GoldenCase& golden) {
    for (const std::string& name : golden.names("in.")) {
      if (!name.ends_with(".x")) continue;
      const std::string sub = name.substr(3, name.size() - 4);  // "in.top1.x" -> "top1."
      // All sizes follow from the shapes: qkv [3 H d, C], wg [E, C], wg_1 [S, C], top-k [N, K].
      const std::int64_t width = golden.tensor(name).dim(2),
                         heads = golden.tensor("inter." + sub + "attn0.head_weights").dim(2);
      const std::int64_t experts = golden.tensor("param." + sub + "wg.weight").dim(0);
      const std::int64_t top_k = golden.tensor("inter." + sub + "router0.topk_indices").dim(1);
      INFO("sub-case " << sub);
      // Ties are the reference's own affair (torch.topk leaves them open): its choice is imposed.
      check_layer(golden, {width, heads, width / heads, heads - experts, top_k}, sub, /*forced=*/true);
    }
  });
}

TEST_CASE("golden: ties still choose exactly K heads") {
  for_each_golden("moh_router_edges", [](const GoldenCase& golden) {
    for (const std::string& name : golden.names("in.ties.")) {
      const Tensor gates = golden.tensor(name);
      const std::int64_t rows = gates.dim(0), experts = gates.dim(1);
      for (std::int64_t k = 1; k <= experts; ++k) {
        const Routing r = route_heads({}, Variable(gates), {}, rows, {experts, 0, k});
        for (std::int64_t i = 0; i < rows; ++i) {
          const auto selected = r.selected.select(i).span<std::uint8_t>();
          REQUIRE(std::count(selected.begin(), selected.end(), 1) == k);
          // What is selected is at least as large as what is not.
          float least = HUGE_VALF, most = -HUGE_VALF;
          for (std::int64_t e = 0; e < experts; ++e) {
            const float g = gates.data<float>()[i * experts + e];
            if (selected[static_cast<std::size_t>(e)])
              least = std::min(least, g);
            else
              most = std::max(most, g);
          }
          CHECK(least >= most);
        }
      }
    }
  });
}
