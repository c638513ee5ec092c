#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "ops/moh/head_slots.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// 12 heads that share 3 KV heads: of each group of 4 one is shared and 1 of the others is kept.
LlamaConfig within(RouterKey router, RoutingKey routing = routings::kWithinGroups) {
  return grouped_llama({.router = router, .routing = routing, .num_shared = 3, .top_k = 3});
}

/// The decisions of the routers of each layer.
class Choices : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    gates.push_back(trace.choice->gates.value());
    slots.push_back(trace.choice->slots);
    top.push_back(trace.choice->routing.top);
  }
  std::vector<Tensor> gates, slots, top;
};

Tensor random(const Shape& shape, std::uint64_t stream) {
  Tensor x = empty(shape, DType::kFloat32);
  fill_normal(x, {7, stream}, 0, 1);
  return x;
}

/// Sizes of the test of bits.
constexpr std::int64_t kBatch = 2, kLength = 70, kHeads = 8, kGroups = 2, kEach = 2, kWidth = 16;

/// Two heads of each group, others for each token.
Tensor some_slots() {
  Tensor selected = zeros({kBatch, kLength, kHeads}, DType::kUInt8);
  for (std::int64_t i = 0; i < kBatch * kLength * kGroups; ++i) {
    const std::int64_t first = i * i % 4;
    for (const std::int64_t head : {first, (first + 1 + i % 3) % 4})
      selected.data<std::uint8_t>()[4 * i + head] = 1;
  }
  return head_slots(selected, kGroups, kEach);
}

/// Elements of heads at the slots, [B, T, G k, d], of those of all heads.
Tensor at_slots(const Tensor& heads, const Tensor& slots) {
  Tensor y = empty({kBatch, kLength, kGroups * kEach, kWidth}, DType::kFloat32);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t slot = i / kWidth, token = slot / (kGroups * kEach);
    y.data<float>()[i] =
        heads.data<float>()[(token * kHeads + slots.data<std::int32_t>()[slot]) * kWidth + i % kWidth];
  }
  return y;
}

/// Elements of slots at their heads, times the gates if there are, zeros elsewhere.
Tensor at_heads(const Tensor& of_slots, const Tensor& slots, const Tensor& gates) {
  Tensor x = zeros({kBatch, kLength, kHeads, kWidth}, DType::kFloat32);
  for (std::int64_t i = 0; i < of_slots.numel(); ++i) {
    const std::int64_t slot = i / kWidth, token = slot / (kGroups * kEach);
    const std::int64_t head = token * kHeads + slots.data<std::int32_t>()[slot];
    const float gate = gates.defined() ? gates.data<float>()[head] : 1.0F;
    x.data<float>()[head * kWidth + i % kWidth] = gate * of_slots.data<float>()[i];
  }
  return x;
}

/// heads [B, T, H, d] times gates [B, T, H].
Tensor gated(const Tensor& heads, const Tensor& gates) {
  Tensor x = empty_like(heads);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = gates.data<float>()[i / kWidth] * heads.data<float>()[i];
  return x;
}

}  // namespace

TEST_CASE("models: inside groups, attention has the bits of dense attention of the gathered queries") {
  const Tensor slots = some_slots(), gate_values = random({kBatch, kLength, kHeads}, 4);
  const Tensor dout = random({kBatch, kLength, kHeads, kWidth}, 5);
  for (const AttentionOptions& mask : {AttentionOptions{}, AttentionOptions{.window = 9}}) {
    const Variable q(random({kBatch, kLength, kHeads, kWidth}, 1), true),
        k(random({kBatch, kLength, kGroups, kWidth}, 2), true),
        v(random({kBatch, kLength, kGroups, kWidth}, 3), true), gates(gate_values, true);
    HeadChoice choice;
    choice.gates = gates;
    choice.rule = routings::kWithinGroups;
    choice.slots = slots;
    const Variable out = attend(q, k, v, &choice, mask);
    out.backward(dout);

    const Variable dense_q(at_slots(q.value(), slots), true), dense_k(k.value(), true),
        dense_v(v.value(), true);
    const Variable dense = attention(dense_q, dense_k, dense_v, mask);
    dense.backward(at_slots(gated(dout, gate_values), slots));
    CHECK(same_bits(out.value(), at_heads(dense.value(), slots, gate_values)));
    CHECK(same_bits(q.grad(), at_heads(dense_q.grad(), slots, Tensor())));
    CHECK(same_bits(k.grad(), dense_k.grad()));
    CHECK(same_bits(v.grad(), dense_v.grad()));
    const Tensor ungated = at_heads(dense.value(), slots, Tensor());
    for (std::int64_t i = 0; i < gates.numel(); ++i) {
      double sum = 0;
      for (std::int64_t j = i * kWidth; j < (i + 1) * kWidth; ++j)
        sum += double{dout.data<float>()[j]} * double{ungated.data<float>()[j]};
      REQUIRE(double{gates.grad().data<float>()[i]} == Approx(sum).margin(1e-5));
    }
  }
}

TEST_CASE("models: inside groups, each KV head has as many active heads of each token") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const auto model = made(within(router));
    Choices seen;
    const NoGrad no_grad;
    model->forward(some_tokens(2, 12), {.observer = &seen});
    REQUIRE(seen.gates.size() == 2);
    bool differs = false;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      REQUIRE(seen.slots[layer].shape() == Shape{2, 12, 3, 2});
      for (std::int64_t i = 0; i < 24 * 3; ++i) {
        const float* group = seen.gates[layer].data<float>() + 4 * i;
        CHECK(4 - std::count(group, group + 4, 0.0F) == 2);
        CHECK(group[0] != 0);  // the first of a group is shared
        const std::int32_t* slots = seen.slots[layer].data<std::int32_t>() + 2 * i;
        CHECK(slots[0] == 4 * (i % 3));
        CHECK(group[slots[1] - slots[0]] != 0);
        differs |= group[1] != 0 && i > 0 && group[-3] == 0;
      }
    }
    CHECK(differs);
    CHECK(activated_heads(*model) == 0.5);
  }
}

TEST_CASE("models: inside groups, a model is that of lists with the same selection, up to rounding") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    for (const bool wide : {false, true}) {
      LlamaConfig config = within(router), listed = within(router, routings::kHeads);
      if (wide) {  // selected heads alone are projected, of enough tokens
        config.head_dim = listed.head_dim = 32;
        config.max_positions = listed.max_positions = 160;
      }
      config.moh.balance_weight = listed.moh.balance_weight = 0;
      listed.moh.shared_heads.every = {0, 4, 8};
      const auto slots = made(config), lists = made(listed);
      const Tensor tokens = some_tokens(2, wide ? 150 : 12);
      Choices seen;
      const Variable logits = slots->forward(tokens, {.observer = &seen}).logits;
      cross_entropy(logits, tokens).backward();
      const Variable expected = lists->forward(tokens, {.forced_top = seen.top}).logits;
      cross_entropy(expected, tokens).backward();
      CHECK(difference_to(logits.value(), expected.value()) < 1e-4);
      const auto a = slots->parameters(), b = lists->parameters();
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        INFO(a[i].name << (wide ? ", wide" : ""));
        CHECK(difference_to(a[i].variable.grad(), b[i].variable.grad()) < 2e-3);
      }
    }
  }
}

TEST_CASE("models: all heads of each group kept with gates 1 are the dense model") {
  LlamaConfig config = within(routers::kQueryNorm);
  config.moh.top_k = 9;
  const auto model = made(config);
  const NoGrad no_grad;
  const Tensor tokens = some_tokens(2, 7);
  CHECK(same_bits(model->forward(tokens).logits.value(),
                  model->forward(tokens, {.all_heads = true}).logits.value()));
}

TEST_CASE("models: inside groups, decoding gives what the forward pass computes") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    LlamaConfig config = within(router);
    config.sliding_window = PerLayer({0, 5});
    const auto model = made(config);
    const NoGrad no_grad;
    const Tensor tokens = some_tokens(1, 10), whole = model->forward(tokens).logits.value();
    KvCache cache = model->make_cache(1, 16);
    for (std::int64_t t = 0; t < 10; ++t) {
      const Tensor token = tokens.reshape({10}).slice(t, t + 1).reshape({1, 1}).clone();
      const Tensor logits = model->decode(token, cache);
      CHECK(difference_to(logits.reshape({19}), whole.reshape({10, 19}).select(t)) < 1e-4);
    }
  }
}

TEST_CASE("models: routers inside groups learn, with each estimator, and the same in recomputed layers") {
  const Tensor tokens = some_tokens(2, 8);
  for (const StraightThrough estimator :
       {StraightThrough::kNone, StraightThrough::kSelected, StraightThrough::kAll}) {
    LlamaConfig config = within(routers::kQueryNorm);
    config.moh.straight_through = estimator;
    const auto model = made(config);
    const LlamaOutput output = model->forward(tokens, {.training = true});
    CHECK(output.routing[0].computed_heads == (estimator == StraightThrough::kAll ? 12 : 6));
    CHECK(output.routing[0].heads == 12);
    CHECK(output.routing[0].load.numel() == 9);
    cross_entropy(output.logits, tokens).backward();
    for (const NamedParameter& p : model->parameters()) CHECK(p.variable.grad().all_finite());
  }
  LlamaConfig config = within(routers::kLearned);
  const auto kept = made(config);
  config.recompute = RecomputeLevel::kLayer;
  const auto recomputed = made(config);
  for (const auto* model : {kept.get(), recomputed.get()}) {
    const LlamaOutput output = model->forward(tokens, {.training = true});
    add(cross_entropy(output.logits, tokens), output.routing[1].balance).backward();
  }
  const auto a = kept->parameters(), b = recomputed->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(same_bits(a[i].variable.grad(), b[i].variable.grad()));
    if (!a[i].name.ends_with("self_attn.wg.weight")) continue;
    CHECK(a[i].variable.shape() == Shape{9, 24});
    CHECK(largest_of(a[i].variable.grad()) > 0);  // also with one head kept of each group
  }
}

TEST_CASE("models: inside groups, K is annealed by as many heads of each group") {
  HeadRoutingOptions options{routers::kLearned, {12, 3, 3}};
  options.router.groups = 3;
  options.top_k_anneal_until = 1;
  CHECK(annealed_top_k(options, 0) == 9);
  CHECK(annealed_top_k(options, 0.4) == 9);
  CHECK(annealed_top_k(options, 0.6) == 6);
  CHECK(annealed_top_k(options, 1) == 3);

  LlamaConfig config = within(routers::kLearned);
  config.moh.top_k_anneal_until = 0.5;
  const auto model = made(config);
  const NoGrad no_grad;
  const auto computed = [&](bool training) {
    return model->forward(some_tokens(1, 8), {.training = training}).routing[1].computed_heads;
  };
  CHECK(computed(true) == 12);
  CHECK(computed(false) == 6);
  model->set_progress(0.3);
  CHECK(computed(true) == 9);
  model->set_progress(0.5);
  CHECK(computed(true) == 6);
}

TEST_CASE("models: inside groups, the first heads of each group are shared unless others are listed") {
  const LlamaConfig config = within(routers::kLearned);
  CHECK(head_kinds(routing_of(config, 0)).shared == std::vector<std::int64_t>{0, 4, 8});
  LlamaConfig two_of_each = config;
  two_of_each.moh.num_shared = 6;
  CHECK(head_kinds(routing_of(two_of_each, 0)).shared == std::vector<std::int64_t>{0, 1, 4, 5, 8, 9});
  CHECK(spelt_out(config.moh, 2, {12, 3}).shared_heads.each ==
        std::vector<std::vector<std::int64_t>>{{0, 4, 8}, {0, 4, 8}});
  LlamaConfig listed = config;
  listed.moh.shared_heads.each = {{1, 5, 9}, {3, 4, 10}};
  require_valid(listed);
  CHECK(head_kinds(routing_of(listed, 1)).shared == std::vector<std::int64_t>{3, 4, 10});
}

TEST_CASE("models: counts that are not the same for each group are refused, and groups of one head") {
  const auto refusal = [](auto change) {
    LlamaConfig config = within(routers::kLearned);
    change(config);
    ConfigFaults faults;
    check(config, faults);
    REQUIRE(faults.all().size() == 1);
    const ConfigFaults::Fault& fault = faults.all()[0];
    return fault.keys[0] + ": expected " + fault.expected + ", found " + fault.found + "; " + fault.fix;
  };
  CHECK(refusal([](LlamaConfig& c) { c.moh.num_shared = 4; }) ==
        "moh.num_shared: expected a multiple of kv_heads (3), found 4 (layer 0); with routing: within_groups "
        "each KV group has as many; moh.num_shared counts the layer's");
  CHECK(refusal([](LlamaConfig& c) {
          c.moh.top_k.each = {3, 5};
        }) ==
        "moh.top_k: expected a multiple of kv_heads (3), found 5 (layer 1); with routing: within_groups each "
        "KV "
        "group has as many; moh.top_k counts the layer's");
  CHECK(refusal([](LlamaConfig& c) {
          c.moh.shared_heads.every = {0, 1, 8};
        }) ==
        "moh.shared_heads: expected 1 of each 4 heads that share a KV head, with routing: within_groups, "
        "found 2 "
        "of KV head 0 (layer 0); ");
  CHECK(refusal([](LlamaConfig& c) { c.kv_heads = 0; }) ==
        "moh.routing: expected heads, as each of the 12 query heads has a KV head of its own, found "
        "within_groups; set kv_heads to a divisor of heads below it");
  const MohConfig moh = within(routers::kLearned).moh;
  ConfigFaults faults;
  check(moh, {.layers = 2, .heads = 12}, faults);
  CHECK_THROWS_WITH(faults.throw_first("vit"),
                    "vit: moh.routing: expected heads or groups, found within_groups; only language and "
                    "translation models have "
                    "groups of query heads that share a KV head");
}

TEST_CASE("models: a router inside groups checks its own") {
  HeadRoutingOptions options = routing_of(within(routers::kLearned), 0);
  const Placement placement(DType::kFloat32);
  CHECK_THROWS_AS(HeadRouter(24, 4, 4, options, placement), ValueError);
  options.shared_heads = {0, 1, 8};
  CHECK_THROWS_WITH(HeadRouter(24, 3, 4, options, placement),
                    Catch::Contains("router: shared_heads: expected as many of each group, found 2"));
}
