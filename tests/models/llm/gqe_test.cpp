// Grouped Query Experts: models/layers/gqe_rule.cpp.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "ops/moh/head_slots.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// 12 heads that share 3 KV heads: of each group of 4 `shared` are shared and 1 of the others is kept.
LlamaConfig gqe_llama(std::int64_t shared = 1, RoutingKey routing = routings::kGqe) {
  return grouped_llama(
      {.router = routers::kLearned, .routing = routing, .num_shared = 3 * shared, .top_k = 3});
}

Tensor random(const Shape& shape, std::uint64_t stream) {
  Tensor x = empty(shape, DType::kFloat32);
  fill_normal(x, {11, stream}, 0, 1);
  return x;
}

/// Tensors that an observer sees of the last layer.
class Last : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    heads = trace.heads;
    has_output = trace.output.defined();
    gates = trace.choice->gates.value();
    slots = trace.choice->slots;
  }
  Tensor heads, gates, slots;
  bool has_output = true;
};

}  // namespace

TEST_CASE("models: the outputs of GQE are the bits of slots inside KV groups, and their weighted sum") {
  constexpr std::int64_t kLength = 40, kWidth = 16, kSlots = 4;
  const Shape heads{2, kLength, 8, kWidth}, keys{2, kLength, 2, kWidth};
  Tensor selected = zeros({2, kLength, 8}, DType::kUInt8);
  for (std::int64_t i = 0; i < 2 * kLength * 2; ++i) {
    for (const std::int64_t head : {i % 4, (i + 1 + i % 3) % 4})
      selected.data<std::uint8_t>()[4 * i + head] = 1;
  }
  HeadChoice choice;
  choice.slots = head_slots(selected, 2, 2);
  Variable q(random(heads, 1), true), k(random(keys, 2), true), v(random(keys, 3), true),
      gates(random({2, kLength, 8}, 4), true);
  choice.gates = gates;
  choice.rule = routings::kGqe;
  const Tensor out = attend(q, k, v, &choice, {}).value();
  REQUIRE(out.shape() == Shape{2, kLength, kSlots + 1, kWidth});
  const Tensor slots = attention_of_slots(q, k, v, choice, {}).value();
  for (std::int64_t token = 0; token < 2 * kLength; ++token) {
    const float *from = slots.data<float>() + token * kSlots * kWidth,
                *to = out.data<float>() + token * (kSlots + 1) * kWidth;
    REQUIRE(std::equal(from, from + kSlots * kWidth, to));
    for (std::int64_t j = 0; j < kWidth; ++j) {
      double sum = 0;
      for (std::int64_t s = 0; s < kSlots; ++s) {
        const std::int64_t head = choice.slots.data<std::int32_t>()[token * kSlots + s];
        sum += double{gates.value().data<float>()[token * 8 + head]} * double{from[s * kWidth + j]};
      }
      REQUIRE(double{to[kSlots * kWidth + j]} == Approx(sum).margin(1e-5));
    }
  }
}

TEST_CASE(
    "models: a layer of GQE has columns for its slots, and weights that sum to 1 over the routed ones") {
  for (const std::int64_t shared : {0, 1}) {
    const auto model = made(gqe_llama(shared));
    const std::int64_t slots = 3 * shared + 3;
    for (const NamedParameter& p : model->parameters()) {
      if (p.name.ends_with("o_proj.weight")) CHECK(p.variable.shape() == Shape{24, (slots + 1) * 4});
      if (p.name.ends_with("q_proj.weight")) CHECK(p.variable.shape() == Shape{48, 24});
      CHECK_FALSE(p.name.ends_with("wg_0.weight"));
      CHECK_FALSE(p.name.ends_with("wg_1.weight"));
    }
    Last seen;
    const NoGrad no_grad;
    model->forward(some_tokens(2, 12), {.observer = &seen});
    CHECK_FALSE(seen.has_output);
    REQUIRE(seen.slots.shape() == Shape{2, 12, 3, shared + 1});
    REQUIRE(seen.heads.shape() == Shape{2, 12, 12, 4});
    for (std::int64_t token = 0; token < 24; ++token) {
      double sum = 0;
      for (std::int64_t head = 0; head < 12; ++head) {
        const double gate = seen.gates.data<float>()[12 * token + head];
        const float* of_head = seen.heads.data<float>() + (12 * token + head) * 4;
        const bool is_shared = shared > 0 && head % 4 == 0;
        const bool is_computed = std::any_of(of_head, of_head + 4, [](float value) { return value != 0; });
        if (is_shared) CHECK(gate == 0);
        CHECK(is_computed == (is_shared || gate > 0));
        sum += gate;
      }
      CHECK(sum == Approx(1));
    }
    CHECK(activated_heads(*model) == static_cast<double>(slots) / 12);
  }
}

TEST_CASE("models: of GQE, decoding gives what the forward pass computes") {
  LlamaConfig config = gqe_llama();
  config.sliding_window = PerLayer({0, 5});
  const auto model = made(config);
  const NoGrad no_grad;
  const Tensor tokens = some_tokens(1, 10), whole = model->forward(tokens).logits.value().reshape({10, 19});
  KvCache cache = model->make_cache(1, 16);
  for (std::int64_t t = 0; t < 10; ++t) {
    const Tensor token = tokens.reshape({10}).slice(t, t + 1).reshape({1, 1}).clone();
    const Tensor logits = model->decode(token, cache).reshape({19});
    CHECK(difference_to(logits, whole.select(t)) < 1e-4);
  }
}

TEST_CASE("models: the routers of GQE learn from the sum, and the same in recomputed layers") {
  LlamaConfig config = gqe_llama();
  const auto kept = made(config);
  config.recompute = RecomputeLevel::kLayer;
  const auto recomputed = made(config);
  const Tensor tokens = some_tokens(2, 8);
  for (const auto* model : {kept.get(), recomputed.get()})
    cross_entropy(model->forward(tokens, {.training = true}).logits, tokens).backward();
  const auto a = kept->parameters(), b = recomputed->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(same_bits(a[i].variable.grad(), b[i].variable.grad()));
    if (a[i].name.ends_with("self_attn.wg.weight")) CHECK(largest_of(a[i].variable.grad()) > 0);
  }
}

TEST_CASE("models: what has no meaning with GQE is refused by name") {
  const auto refusal = [](auto change) {
    LlamaConfig config = gqe_llama();
    change(config);
    ConfigFaults faults;
    check(config, faults);
    REQUIRE(faults.all().size() == 1);
    const ConfigFaults::Fault& fault = faults.all()[0];
    return fault.keys[0] + ": expected " + fault.expected + ", found " + fault.found;
  };
  CHECK(refusal([](LlamaConfig& c) { c.moh.router = routers::kQueryNorm; }) ==
        "moh.router: expected a router with weights with moh.routing: gqe, found query_norm");
  CHECK(refusal([](LlamaConfig& c) { c.moh.gate_scaling = GateScaling::kPaper; }) ==
        "moh.gate_scaling: expected code, the default, with moh.routing: gqe, found paper");
  CHECK(refusal([](LlamaConfig& c) { c.moh.two_stage = false; }) ==
        "moh.two_stage: expected true, the default, with moh.routing: gqe, found false");
  CHECK(refusal([](LlamaConfig& c) { c.moh.top_k_anneal_until = 0.5; }) ==
        "moh.top_k_anneal_until: expected 0 with moh.routing: gqe, found 0.5");
  CHECK(refusal([](LlamaConfig& c) { c.moh.num_shared = 4; }) ==
        "moh.num_shared: expected a multiple of kv_heads (3), found 4 (layer 0)");
  CHECK(refusal([](LlamaConfig& c) { c.attention_gate = AttentionGate::kHead; }) ==
        "attention_gate: expected none with moh.routing: gqe, found gates");
  CHECK(refusal([](LlamaConfig& c) { c.moh.shared_heads.rule = HeadRule::kLossIncrease; }) ==
        "moh.shared_heads: expected first, or lists of heads, with moh.routing: gqe, found a measurement");
  HeadRoutingOptions options = routing_of(gqe_llama(), 0);
  CHECK(options.outputs() == 7);
  options.router.scaling = GateScaling::kCode;
  CHECK_THROWS_AS(HeadRouter(24, 3, 4, options, Placement(DType::kFloat32)), ValueError);
}
