// dit_moh_attention and moh_router_edges: MoH attention of the released MoH-DiT, outputs and gradients.

#include <algorithm>

#include "models/layers/moh_attention.h"
#include "ops/attention/attention.h"
#include "ops/moh/head_router.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/reference_choice.h"

using namespace moh;
using namespace moh::test;

namespace {

/// One layer of a case: a whole file, or, with a name in front of those of its tensors, a part of one.
struct LayerCase {
  const GoldenCase& golden;
  std::string sub;  // "", or "top1."

  std::string attention() const { return "inter." + sub + "attn0"; }
  std::string router() const { return "inter." + sub + "router0"; }
  Tensor input() const { return golden.tensor("in." + sub + "x"); }
  Tensor weights() const { return golden.tensor("w." + sub + "y"); }

  MohAttentionOptions options() const {
    const HeadCounts counts = head_counts(golden, attention(), router());
    return {input().dim(2),
            counts.heads,
            golden.tensor(attention() + ".head_out").dim(3),
            {routers::kLearned, {counts.heads, counts.shared, counts.top_k}}};
  }
};

/// The layer with projections of the selected heads alone, which real sizes take on a CPU
/// (head_projection_pays) and those of the reference do not.
class SelectedHeadsAttention : public Module {
 public:
  explicit SelectedHeadsAttention(const MohAttentionOptions& o)
      : head_dim_(o.head_dim),
        qkv_(o.width, 3 * o.heads * o.head_dim, true, DType::kFloat32),
        proj_(o.heads * o.head_dim, o.width, true, DType::kFloat32),
        router_(o.width, o.heads, o.head_dim, o.routing, DType::kFloat32) {
    add_child("qkv", qkv_);
    add_child("proj", proj_);
    add_children_of(router_);
  }

  LayerOutput forward(const Variable& x, const ForwardContext& context) const {
    HeadChoice choice = router_({.x = x}, context);
    choice.lists_of_heads = choice.lists;
    const Variable heads = head_sparse_attention_packed(to_heads(qkv_, x, head_dim_, &choice), choice.gates,
                                                        choice.lists, {.causal = false});
    return {from_heads(proj_, heads, &choice), summarize(choice)};
  }

 private:
  std::int64_t head_dim_;
  Linear qkv_, proj_;
  HeadRouter router_;
};

/// Gates and heads, as the layer chooses them by itself.
void check_inside(const LayerCase& layer_case, const MohAttention& layer) {
  const GoldenCase& golden = layer_case.golden;
  const Variable x(layer_case.input());
  LayerTraces own, all;
  layer.forward(x, {.observer = &own});
  if (golden.has(layer_case.router() + ".gates"))
    check_router(golden, layer_case.router(), own[0].choice.value().routing);
  layer.forward(x, {.observer = &all, .all_heads = true});
  golden.check(layer_case.attention() + ".head_out", all[0].heads);

  const Tensor forced = imposed_choice(golden, layer_case.router());
  LayerTraces weighted;
  layer.forward(x, {.observer = &weighted, .forced_top = {&forced, 1}});
  golden.check(layer_case.attention() + ".head_weights", weighted[0].choice.value().gates.value());
}

/// Outputs and gradients.
template <class Layer>
void check_results(const LayerCase& layer_case, const Layer& layer) {
  const GoldenCase& golden = layer_case.golden;
  const std::string& sub = layer_case.sub;
  const Tensor forced = imposed_choice(golden, layer_case.router()), w = layer_case.weights();
  const ForwardContext context{.forced_top = {&forced, 1}};
  Variable x(layer_case.input(), true);

  const LayerOutput out = layer.forward(x, context);
  const Variable balance = out.routing->balance;
  const double balance_value = balance.defined() ? balance.value().item() : 0;
  golden.check("out." + sub + "y", out.y.value());
  golden.check("out." + sub + "lb_loss", balance_value);
  golden.check("out." + sub + "loss", weighted_sum(out.y.value(), w) + kBalanceWeight * balance_value);

  std::vector<Variable> outputs = {out.y};
  std::vector<Tensor> seeds = {w};
  if (balance.defined()) {
    outputs.push_back(balance);
    seeds.push_back(full({}, kBalanceWeight, DType::kFloat32));
  }
  backward(outputs, seeds);
  golden.check_gradients(layer, "grad.param." + sub);
  golden.check("grad.in." + sub + "x", x.grad());

  if (!balance.defined()) return;
  zero_gradients(layer);
  x.zero_grad();
  layer.forward(x, context).routing->balance.backward();
  golden.check_gradients(layer, "grad_lb.param." + sub);
  golden.check("grad_lb.in." + sub + "x", x.grad());
}

void check_layer(const LayerCase& layer_case) {
  const MohAttentionOptions options = layer_case.options();
  const std::string parameters = "param." + layer_case.sub;
  const MohAttention layer(options, DType::kFloat32);
  layer_case.golden.load(layer, parameters);
  check_inside(layer_case, layer);
  check_results(layer_case, layer);
  const SelectedHeadsAttention selected(options);
  layer_case.golden.load(selected, parameters);
  INFO("with projections of the selected heads alone");
  check_results(layer_case, selected);
}

/// Which of equal gates torch.topk takes is its own affair; that they are the largest, best first, is not.
void check_ties(const GoldenCase& golden, const std::string& indices) {
  constexpr std::string_view kOutput = "out.";
  const std::string rows = "in." + indices.substr(kOutput.size(), indices.rfind(".k") - kOutput.size());
  const Tensor gates = golden.tensor(rows + ".gates"), reference = golden.tensor(indices);
  const std::int64_t tokens = gates.dim(0), experts = gates.dim(1), top_k = reference.dim(1);
  const Routing own = route_heads({}, Variable(gates), {}, tokens, {experts, 0, top_k});
  REQUIRE(own.top.shape() == reference.shape());
  for (std::int64_t i = 0; i < reference.numel(); ++i) {
    const float* row = gates.data<float>() + i / top_k * experts;
    CHECK(row[own.top.data<std::int32_t>()[i]] == row[reference.data<std::int64_t>()[i]]);
  }
  const auto selected = own.selected.span<std::uint8_t>();
  CHECK(std::ranges::count(selected, 1) == tokens * top_k);  // no head twice
  golden.mark_compared(indices);
}

}  // namespace

GOLDEN_KIND(dit_moh_attention) {
  check_layer({golden, ""});
}

GOLDEN_KIND(moh_router_edges) {
  constexpr std::string_view kInput = "in.", kRest = ".x";  // "in.top1.x" is the input of "top1"
  for (const std::string& name : golden.names(kInput)) {
    if (!name.ends_with(kRest)) continue;
    const std::string sub = name.substr(kInput.size(), name.size() - kInput.size() - kRest.size());
    INFO("part " << sub);
    check_layer({golden, sub + "."});
  }
  for (const std::string& name : golden.names("out.ties.")) check_ties(golden, name);
}
