#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "models/active_heads.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/routed_llama.h"

using namespace moh;
using namespace moh::test;

namespace {

/// 6 heads, of which all tokens have 1, 2 and 5.
LlamaConfig static_heads() {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 24,
                .intermediate = 36,
                .heads = 6,
                .head_dim = 8,
                .max_positions = 32};
  c.moh = {.router = routers::kStatic, .num_shared = 3};
  c.moh.shared_heads.every = {1, 2, 5};
  return c;
}

bool is_kept(std::int64_t head) {
  return head == 1 || head == 2 || head == 5;
}

LlamaConfig dense_heads() {
  LlamaConfig c = static_heads();
  c.moh = {};
  return c;
}

/// Sets the columns of output projections to 0 that belong to other heads.
void cut_other_heads(const Llama& model) {
  for (const NamedParameter& p : model.parameters()) {
    if (!p.name.ends_with("o_proj.weight")) continue;
    float* w = p.variable.value().data<float>();
    for (std::int64_t i = 0; i < p.variable.shape().numel(); ++i) {
      if (!is_kept(i % 48 / 8)) w[i] = 0;
    }
  }
}

}  // namespace

TEST_CASE("static router: the output is that of a dense model without the other heads, decoding too") {
  const auto cut = made(static_heads()), dense = made(dense_heads());
  cut_other_heads(*dense);
  const Tensor tokens = some_tokens(2, 12);
  const Tensor found = cut->forward(tokens).logits.value(), expected = dense->forward(tokens).logits.value();
  KvCache cache = cut->make_cache(2, 16);
  const Tensor decoded = cut->decode(tokens, cache);
  for (std::int64_t i = 0; i < found.numel(); ++i)
    CHECK(found.data<float>()[i] == Approx(expected.data<float>()[i]).epsilon(1e-4).margin(1e-4));
  CHECK(decoded.numel() > 0);
  const float* last = found.data<float>() + found.numel() - 19;
  for (std::int64_t i = 0; i < 19; ++i)
    CHECK(decoded.data<float>()[decoded.numel() - 19 + i] == Approx(last[i]).epsilon(1e-4).margin(1e-4));
}

TEST_CASE(
    "static router: queries of the other heads have no gradient, and the model has no router matrices") {
  const auto model = made(static_heads());
  const Tensor tokens = some_tokens(2, 12);
  const LlamaOutput output = model->forward(tokens, {.training = true});
  cross_entropy(output.logits, tokens).backward();
  CHECK_FALSE(output.routing[0].balance.defined());
  int seen = 0;
  for (const NamedParameter& p : model->parameters()) {
    CHECK(p.name.find("wg") == std::string::npos);
    if (!p.name.ends_with("q_proj.weight")) continue;
    const float* gradient = p.variable.grad().data<float>();
    for (std::int64_t head = 0; head < 6; ++head) {
      const float* rows = gradient + head * 8 * 24;
      const bool any = std::any_of(rows, rows + 8 * 24, [](float g) { return g != 0; });
      CHECK(any == is_kept(head));
    }
    ++seen;
  }
  CHECK(seen == 2);
}

TEST_CASE("static router: the shared heads are the active ones, and routed ones are refused") {
  CHECK(activated_heads(*made(static_heads())) == 0.5);
  LlamaConfig config = static_heads();
  config.moh.straight_through = StraightThrough::kAll;  // of no gates, so that it asks for no other head
  CHECK(computed_heads(routing_of(config, 0), true) == 3);
  config.moh.top_k = 1;
  ConfigFaults faults;
  check(config, faults);
  CHECK_THROWS_WITH(faults.throw_first("llama"),
                    "llama: moh.top_k: expected 0 with moh.router: static, found 1 (layer 0); its tokens "
                    "have the shared heads alone");
}
