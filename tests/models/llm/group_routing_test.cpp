#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// 8 heads that share 4 KV heads, of which 1 is shared and 2 of the others are kept.
LlamaConfig grouped(RouterKey router, RoutingKey routing = routings::kGroups) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 16,
                .intermediate = 24,
                .heads = 8,
                .kv_heads = 4,
                .head_dim = 4,
                .max_positions = 32};
  c.moh = {.router = router, .routing = routing, .num_shared = 1, .top_k = 2};
  return c;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
  return largest;
}

/// The decisions of the routers of each layer.
class Gates : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    gates.push_back(trace.choice->gates.value());
    routing.push_back(trace.choice->routing);
    lists.push_back(trace.choice->lists);
  }
  std::vector<Tensor> gates;
  std::vector<Routing> routing;
  std::vector<HeadLists> lists;
};

/// sum_i P_i f_i over the routed groups of `grouped` models, 1 to 3, from probabilities and gates.
double balance_of_groups(const Routing& routing, const Tensor& gates) {
  const std::int64_t tokens = gates.numel() / 8;
  double sum = 0;
  for (std::int64_t group = 1; group < 4; ++group) {
    double mean = 0, load = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      mean += double{routing.probabilities.data<float>()[3 * t + group - 1]};
      load += gates.data<float>()[8 * t + 2 * group] != 0 ? 1 : 0;
    }
    sum += mean * load / static_cast<double>(tokens * tokens);
  }
  return sum;
}

}  // namespace

TEST_CASE(
    "models: with groups routed, the heads of a KV head have one gate, and its list every token or none") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const auto model = made(grouped(router));
    Gates seen;
    const NoGrad no_grad;
    model->forward(some_tokens(2, 12), {.observer = &seen});
    REQUIRE(seen.gates.size() == 2);
    bool one_left_out = false;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Tensor& gates = seen.gates[layer];
      REQUIRE(gates.shape() == Shape{2, 12, 8});
      for (std::int64_t t = 0; t < 24; ++t) {
        const float* of_token = gates.data<float>() + t * 8;
        int active = 0;
        for (int group = 0; group < 4; ++group) {
          CHECK(of_token[2 * group] == of_token[2 * group + 1]);
          active += of_token[2 * group] != 0 ? 1 : 0;
        }
        CHECK(active == 3);
        one_left_out |= of_token[2] == 0;
      }
      CHECK(seen.lists[layer].num_rows() == 24 * 6);
    }
    CHECK(one_left_out);
    CHECK(activated_heads(*model) == 0.75);
  }
}

TEST_CASE("models: where every head has its own KV head, groups are heads") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    LlamaConfig by_group = grouped(router), by_head = grouped(router, routings::kHeads);
    by_group.kv_heads = by_head.kv_heads = 8;
    const auto a = made(by_group), b = made(by_head);
    const NoGrad no_grad;
    const Tensor tokens = some_tokens(1, 9);
    CHECK(same_bits(a->forward(tokens).logits.value(), b->forward(tokens).logits.value()));
  }
}

TEST_CASE("models: all groups kept with gates 1 are the dense model") {
  LlamaConfig config = grouped(routers::kQueryNorm);
  config.moh.top_k = 3;
  const auto model = made(config);
  const NoGrad no_grad;
  const Tensor tokens = some_tokens(2, 7);
  CHECK(largest_difference(model->forward(tokens).logits.value(),
                           model->forward(tokens, {.all_heads = true}).logits.value()) < 1e-4);
}

TEST_CASE("models: routed groups decode what the forward pass computes") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const auto model = made(grouped(router));
    const NoGrad no_grad;
    const Tensor tokens = some_tokens(1, 10), whole = model->forward(tokens).logits.value();
    KvCache cache = model->make_cache(1, 16);
    for (std::int64_t t = 0; t < 10; ++t) {
      const Tensor logits =
          model->decode(tokens.reshape({10}).slice(t, t + 1).reshape({1, 1}).clone(), cache);
      CHECK(largest_difference(logits.reshape({19}), whole.reshape({10, 19}).select(t)) < 1e-3);
    }
  }
}

TEST_CASE("models: routers of groups learn, with estimators over selected and over all groups") {
  for (const StraightThrough estimator : {StraightThrough::kSelected, StraightThrough::kAll}) {
    LlamaConfig config = grouped(routers::kQueryNorm);
    config.moh.straight_through = estimator;
    const auto model = made(config);
    const Tensor tokens = some_tokens(2, 8);
    const LlamaOutput output = model->forward(tokens, {.training = true});
    CHECK(output.routing[0].computed_heads == (estimator == StraightThrough::kAll ? 8 : 6));
    CHECK(output.routing[0].load.numel() == 3);
    cross_entropy(output.logits, tokens).backward();
    for (const NamedParameter& p : model->parameters()) CHECK(p.variable.grad().defined());
  }
  const auto learned = made(grouped(routers::kLearned));
  const Tensor tokens = some_tokens(2, 8);
  cross_entropy(learned->forward(tokens, {.training = true}).logits, tokens).backward();
  for (const NamedParameter& p : learned->parameters()) {
    INFO(p.name);
    CHECK(p.variable.grad().all_finite());
    if (p.name.ends_with("self_attn.wg.weight")) CHECK(p.variable.shape() == Shape{3, 16});
  }
}

TEST_CASE("models: the load-balance loss of routed groups is over groups") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    for (const auto& [form, factor] :
         {std::pair{BalanceLoss::kCode, 3.0}, {BalanceLoss::kPaper, 1.0}, {BalanceLoss::kShares, 1.5}}) {
      LlamaConfig config = grouped(router);
      config.moh.balance_loss = form;
      const auto model = made(config);
      Gates seen;
      const LlamaOutput output = model->forward(some_tokens(2, 12), {.observer = &seen});
      for (std::size_t layer = 0; layer < 2; ++layer) {
        const double expected = factor * balance_of_groups(seen.routing[layer], seen.gates[layer]);
        CHECK(output.routing[layer].balance.value().item() == Approx(expected).epsilon(1e-5));
        double kept = 0;
        for (const float load : output.routing[layer].load.span<float>()) kept += double{load};
        CHECK(kept == Approx(2));
      }
    }
    // All groups kept: the constant E, without a gradient.
    LlamaConfig config = grouped(router);
    config.moh.top_k = 3;
    const auto model = made(config);
    const Variable balance = model->forward(some_tokens(2, 12)).routing[1].balance;
    CHECK(balance.value().item() == Approx(3));
    balance.backward();
    for (const NamedParameter& p : model->parameters()) {
      if (p.name.ends_with("self_attn.wg.weight") && p.variable.grad().defined())
        CHECK(largest_difference(p.variable.grad(), zeros(p.variable.shape(), DType::kFloat32)) < 1e-6);
    }
  }
}

TEST_CASE("models: head counts of groups are counts of KV heads") {
  LlamaConfig config = grouped(routers::kLearned);
  config.moh.top_k = 4;
  CHECK_THROWS_WITH(require_valid(config),
                    "llama: moh.top_k: expected at most 3, the heads that are not shared, found 4 (layer 0)");
  config = grouped(routers::kLearned);
  config.moh.num_shared = 5;
  CHECK_THROWS_WITH(require_valid(config), Catch::Contains("at most kv_heads (4)"));
  config = grouped(routers::kLearned);
  config.moh.shared_heads.every = {4};
  CHECK_THROWS_WITH(require_valid(config), Catch::Contains("heads from 0 to 3"));
}

TEST_CASE("models: K is annealed in training passes alone, and the same in recomputed ones") {
  HeadRoutingOptions options{routers::kLearned, {8, 2, 2}};
  CHECK(annealed_top_k(options, 0) == 2);
  options.top_k_anneal_until = 0.5;
  std::vector<std::int64_t> of_steps;
  for (int step = 0; step < 20; ++step) of_steps.push_back(annealed_top_k(options, step / 16.0));
  CHECK(of_steps == std::vector<std::int64_t>{6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});

  for (const RoutingKey routing : {routings::kHeads, routings::kGroups}) {
    LlamaConfig config = grouped(routers::kLearned, routing);
    config.moh.top_k_anneal_until = 0.5;
    config.moh.top_k = 1;
    const auto model = made(config);
    const Tensor tokens = some_tokens(1, 8);
    CHECK_FALSE(is_settled(*model));
    const std::int64_t units = routing == routings::kGroups ? 4 : 8, each = 8 / units;
    const auto computed = [&](bool training) {
      const NoGrad no_grad;
      return model->forward(tokens, {.training = training}).routing[1].computed_heads;
    };
    CHECK(computed(true) == 8);
    CHECK(computed(false) == 2 * each);
    model->set_progress(0.49);
    CHECK(computed(true) == 3 * each);
    model->set_progress(0.5);
    CHECK(computed(true) == 2 * each);
    CHECK(is_settled(*model));

    LlamaConfig again = config;
    again.recompute = RecomputeLevel::kLayer;
    const auto recomputed = made(again);
    for (const auto* const m : {model.get(), recomputed.get()}) const_cast<Llama*>(m)->set_progress(0.2);
    for (const auto* const m : {model.get(), recomputed.get()})
      cross_entropy(m->forward(tokens, {.training = true}).logits, tokens).backward();
    const std::vector<NamedParameter> a = model->parameters(), b = recomputed->parameters();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i].variable.grad(), b[i].variable.grad()));
  }
}
