#include "models/layers/head_routing.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/node.h"
#include "core/error.h"
#include "models/layers/moh_attention.h"
#include "ops/attention/attention.h"
#include "ops/moh/query_norm.h"
#include "ops/shape/reshape.h"

using namespace moh;

namespace {

Variable some_input(const Shape& shape, std::uint64_t seed = 1) {
  const Tensor x = empty(shape, DType::kFloat32);
  fill_normal(x, {seed, 0}, 0.0, 1.0);
  return Variable(x, true);
}

void fill_parameters(const Module& module) {
  for (const NamedParameter& p : module.parameters()) {
    fill_normal(p.variable.value(), initialisation_key(2, p.name), 0.0, 0.3);
  }
}

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const NamedParameter& p : module.parameters()) names.push_back(p.name);
  return names;
}

}  // namespace

TEST_CASE("models: a router has the maps that its head counts call for") {
  using Names = std::vector<std::string>;
  const auto names = [](std::int64_t heads, std::int64_t shared, std::int64_t top_k) {
    return names_of(HeadRouter(8, heads, 4, {routers::kLearned, {heads, shared, top_k}}, DType::kFloat32));
  };
  CHECK(names(6, 3, 2) == Names{"wg.weight", "wg_0.weight", "wg_1.weight"});
  CHECK(names(6, 1, 2) == Names{"wg.weight", "wg_0.weight"});
  CHECK(names(6, 0, 2) == Names{"wg.weight"});
  CHECK(names(6, 6, 0) == Names{"wg_1.weight"});
  CHECK_THROWS_AS(names(6, 3, 0), ValueError);
}

TEST_CASE("models: the lists hold exactly the selected pairs") {
  HeadRouter router(8, 2, 4, {routers::kLearned, {6, 1, 2}}, DType::kFloat32);
  fill_parameters(router);
  const HeadChoice choice = router({.x = some_input({2, 5, 8})});
  CHECK(choice.lists.num_rows() == 2 * 5 * 3);
  CHECK(choice.gates.shape() == Shape{2, 5, 6});
}

TEST_CASE(
    "models: straight-through over all heads gives unselected heads' queries no gradient, but their logits "
    "one") {
  // Attention's queries and the router's are separate leaves here, so that the two ways of a gradient stay
  // apart. With kSelected the router hears of selected heads only; with kAll of every routed head.
  constexpr std::int64_t kTokens = 4, kHeads = 6, kShared = 2, kDim = 2, kExperts = kHeads - kShared;
  const Shape shape{1, kTokens, kHeads, kDim};
  const Variable x = some_input({1, kTokens, 8}), k = some_input(shape, 4), v = some_input(shape, 5);
  const Tensor dy = some_input(shape, 6).value();
  const AttentionOptions everywhere{.causal = false};  // a query with one key has no gradient
  const Tensor outputs =
      attention(some_input(shape, 3), k, v, everywhere).value();  // of every head, without gates
  for (const StraightThrough mode :
       {StraightThrough::kSelected, StraightThrough::kAll, StraightThrough::kNone}) {
    HeadRouter router(8, kHeads, kDim, {routers::kQueryNorm, {kHeads, kShared, 2}, mode}, DType::kFloat32);
    CHECK(names_of(router).empty());
    const Variable q = some_input(shape, 3), routers_q = some_input(shape, 3);
    const HeadChoice choice = router({.x = x, .queries = routers_q});
    CHECK(choice.lists.num_rows() == (mode == StraightThrough::kAll ? kTokens * kHeads : kTokens * 4));
    CHECK(choice.routing.balance.defined());
    head_sparse_attention(q, k, v, choice.gates, choice.lists, everywhere).backward(dy);

    // The expected gradient of the estimator: dz = p (U - sum_j U_j p_j), U_e = <dy_e, output_e> of the heads
    // that it sees; then through the norms of the queries.
    const Variable same_q = some_input(shape, 3);
    const Variable logits = query_norm_logits(reshape(same_q, {kTokens, kHeads, kDim}), kShared);
    const Tensor dz = zeros(logits.shape(), DType::kFloat32);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const float* p = choice.routing.probabilities.data<float>() + t * kExperts;
      const std::uint8_t* selected = choice.routing.selected.data<std::uint8_t>() + t * kHeads;
      float u[kExperts] = {}, mean = 0;
      for (std::int64_t e = 0; e < kExperts; ++e) {
        const std::int64_t head = (t * kHeads + kShared + e) * kDim;
        const bool heard =
            mode == StraightThrough::kAll || (mode == StraightThrough::kSelected && selected[kShared + e]);
        for (std::int64_t j = 0; heard && j < kDim; ++j)
          u[e] += dy.data<float>()[head + j] * outputs.data<float>()[head + j];
        mean += u[e] * p[e];
      }
      for (std::int64_t e = 0; e < kExperts; ++e) dz.data<float>()[t * kExperts + e] = p[e] * (u[e] - mean);
    }
    logits.backward(dz);
    const auto gradient = [](const Variable& leaf, std::int64_t i) {
      return leaf.grad().defined() ? leaf.grad().data<float>()[i] : 0.0F;
    };
    bool unselected_head_heard = false;
    for (std::int64_t i = 0; i < q.numel(); ++i) {
      CHECK(gradient(routers_q, i) == Approx(gradient(same_q, i)).margin(1e-5));
      if (choice.routing.selected.data<std::uint8_t>()[i / kDim]) {
        CHECK(gradient(q, i) != 0.0F);
      } else {
        CHECK(gradient(q, i) == 0.0F);
        unselected_head_heard |= gradient(routers_q, i) != 0.0F;
      }
    }
    CHECK(unselected_head_heard == (mode != StraightThrough::kNone));
  }
}

TEST_CASE("models: bfloat16 attention with a forced choice stays near float32") {
  const MohAttentionOptions options{32, 4, 8, {routers::kLearned, {4, 1, 2}}};
  MohAttention wide(options, DType::kFloat32), narrow(options, DType::kBFloat16);
  fill_parameters(wide);
  fill_parameters(narrow);
  const Variable x = some_input({2, 11, 32});
  // The narrow layer's own choice, so that a near-tie cannot set the two apart.
  const Tensor top = [&] {
    const HeadRouter probe(32, 4, 8, options.routing, DType::kFloat32);
    const std::vector<NamedParameter> from = wide.parameters();
    for (const NamedParameter& p : probe.parameters()) {
      for (const NamedParameter& source : from) {
        if (source.name == p.name) p.variable.value().copy_from(source.variable.value());
      }
    }
    return probe({.x = x}).routing.top;
  }();
  const Tensor a = wide.forward(x, {.forced_top = {&top, 1}}).y.value();
  const Tensor b = narrow.forward(Variable(x.value().to(DType::kBFloat16)), {.forced_top = {&top, 1}})
                       .y.value()
                       .to(DType::kFloat32);
  float scale = 0;
  for (float v : a.span<float>()) scale = std::max(scale, std::abs(v));
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    CHECK(b.data<float>()[i] == Approx(a.data<float>()[i]).margin(3e-2 * scale));
  }
}

TEST_CASE("models: projecting the chosen heads alone gives what projecting all of them gives") {
  // Large enough for head_projection_pays, and two routed heads per token: with one the gates give its logits
  // no gradient but rounding, which agrees with nothing.
  const std::int64_t width = 48, heads = 6, d = 32;
  const MohAttentionOptions options{width, heads, d, {routers::kLearned, {heads, 1, 2}}};
  const MohAttention layer(options, DType::kFloat32);
  fill_parameters(layer);
  std::vector<Variable> same;  // qkv.weight, qkv.bias, proj.weight, proj.bias, then the router's
  for (const NamedParameter& p : layer.parameters()) same.emplace_back(p.variable.value(), true);
  const Variable x = some_input({2, 80, width}), same_x(x.value(), true);

  const Variable y = layer.forward(x).y;
  const std::vector<std::string> ops = graph_op_names(y);
  REQUIRE(std::count(ops.begin(), ops.end(), "project_to_heads") == 1);
  REQUIRE(std::count(ops.begin(), ops.end(), "project_from_heads") == 1);

  REQUIRE(names_of(layer) == std::vector<std::string>{"qkv.weight", "qkv.bias", "proj.weight", "proj.bias",
                                                      "wg.weight", "wg_0.weight"});
  const auto logits = [&](const Variable& w) { return reshape(linear(same_x, w), {160, -1}); };
  const Routing routing = route_heads({}, logits(same[4]), logits(same[5]), 160, options.routing.router, {});
  const HeadLists lists = build_head_lists(routing.selected.reshape({2, 80, heads}), heads);
  const Variable qkv = reshape(linear(same_x, same[0], same[1]), {2, 80, 3 * heads, d});
  const Variable out =
      head_sparse_attention_packed(qkv, reshape(routing.gates, {2, 80, heads}), lists, {.causal = false});
  const Variable dense = linear(reshape(out, {2, 80, heads * d}), same[2], same[3]);

  const auto check_close = [](const Tensor& a, const Tensor& b) {
    REQUIRE(a.shape() == b.shape());
    float scale = 0, difference = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      scale = std::max(scale, std::abs(b.data<float>()[i]));
      difference = std::max(difference, std::abs(a.data<float>()[i] - b.data<float>()[i]));
    }
    CHECK(difference <= 1e-5F * scale);
  };
  check_close(y.value(), dense.value());
  const Tensor dy = some_input(y.shape(), 7).value();
  y.backward(dy);
  dense.backward(dy);
  check_close(x.grad(), same_x.grad());
  const std::vector<NamedParameter> parameters = layer.parameters();
  for (std::size_t i = 0; i < same.size(); ++i) {
    INFO(parameters[i].name);
    check_close(parameters[i].variable.grad(), same[i].grad());
  }
}
