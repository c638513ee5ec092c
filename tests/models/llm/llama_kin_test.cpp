// The additions of LLaMA's kin: biases, normalised queries and keys, rotary embeddings that are stretched.

#include <catch2/catch.hpp>
#include <map>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kVocab = 11;

/// With everything at once.
LlamaConfig kin(RouterKey router) {
  LlamaConfig c{.vocab_size = kVocab,
                .layers = 2,
                .hidden = 16,
                .intermediate = 12,
                .heads = 4,
                .kv_heads = 2,
                .head_dim = 8,
                .max_positions = 16,
                .qkv_bias = true,
                .o_bias = true,
                .mlp_bias = true,
                .qk_norm = true,
                .init_std = 0.3};
  c.rope_scaling = {.kind = RopeScalingKind::kYarn, .factor = 4, .original_positions = 8, .beta_fast = 2};
  if (router != routers::kNone) c.moh = {.router = router, .num_shared = 1, .top_k = 2};
  return c;
}

Tensor some_tokens(std::int64_t batch, std::int64_t length) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = (i * i + i / 7) % kVocab;
  return tokens;
}

/// Every element of every parameter differs from its neighbours.
std::unique_ptr<Llama> make_model(const LlamaConfig& config, DType dtype = DType::kFloat32) {
  auto model = std::make_unique<Llama>(config, dtype);
  model->initialise(3);
  for (const NamedParameter& p : model->parameters()) {
    if (p.variable.shape().rank() == 1)
      fill_normal(p.variable.value(), initialisation_key(3, p.name), p.name.ends_with("bias") ? 0 : 1, 0.3);
  }
  return model;
}

Variable loss_of(const Llama& model, const Tensor& tokens) {
  return cross_entropy(model.forward(tokens).logits, tokens,
                       {.normalizer = static_cast<double>(tokens.numel())});
}

/// The logits of the last of each of `tokens` [1, T], decoded one by one after the first `chunk`.
std::vector<Tensor> decoded(const Llama& model, const Tensor& tokens, std::int64_t chunk) {
  KvCache cache = model.make_cache(1, tokens.dim(1));
  std::vector<Tensor> rows;
  for (std::int64_t t = 0; t < tokens.dim(1); t += rows.size() == 1 ? chunk : 1) {
    const std::int64_t count = rows.empty() ? chunk : 1;
    rows.push_back(model.decode(tokens.select(0).slice(t, t + count).reshape({1, count}), cache));
  }
  return rows;
}

constexpr RouterKey kRouters[] = {routers::kNone, routers::kLearned, routers::kQueryNorm};

}  // namespace

TEST_CASE("llama kin: new biases are 0 and new norms 1, under Hugging Face's names") {
  Llama model(kin(routers::kLearned), DType::kFloat32);
  model.initialise(1);
  std::int64_t biases = 0, norms = 0;
  for (const NamedParameter& p : model.parameters()) {
    if (p.variable.shape().rank() != 1) continue;
    const bool is_bias = p.name.ends_with(".bias");
    ++(is_bias ? biases : norms);
    INFO(p.name);
    for (const float value : p.variable.value().span<float>()) CHECK(value == (is_bias ? 0 : 1));
  }
  CHECK(biases == 2 * 7);
  CHECK(norms == 2 * 4 + 1);
  const std::vector<NamedParameter> all = model.parameters();
  for (const auto& [name, shape] : {std::pair<std::string, Shape>{"self_attn.q_norm.weight", {8}},
                                    {"self_attn.k_norm.weight", {8}},
                                    {"self_attn.q_proj.bias", {32}},
                                    {"self_attn.k_proj.bias", {16}},
                                    {"self_attn.o_proj.bias", {16}},
                                    {"mlp.down_proj.bias", {16}}}) {
    const auto found = std::ranges::find(all, "model.layers.1." + name, &NamedParameter::name);
    REQUIRE(found != all.end());
    CHECK(found->variable.shape() == shape);
  }
}

TEST_CASE("llama kin: gradients are the slopes of the loss") {
  for (const RouterKey router : {routers::kNone, routers::kLearned}) {
    const auto model = make_model(kin(router), DType::kFloat64);
    const Tensor tokens = some_tokens(2, 6);
    loss_of(*model, tokens).backward();
    const NoGrad no_grad;
    for (const NamedParameter& p : model->parameters()) {
      INFO(p.name);
      REQUIRE(p.variable.grad().defined());
      double* const value = p.variable.value().data<double>() + p.variable.numel() / 2;
      const double kept = *value, step = 1e-6;
      *value = kept + step;
      const double above = loss_of(*model, tokens).value().item();
      *value = kept - step;
      const double below = loss_of(*model, tokens).value().item();
      *value = kept;
      const double found = p.variable.grad().data<double>()[p.variable.numel() / 2];
      CHECK(found == Approx((above - below) / (2 * step)).epsilon(1e-5).margin(1e-8));
    }
  }
}

TEST_CASE("llama kin: recomputing the layers changes no bit") {
  for (const RouterKey router : kRouters) {
    std::map<RecomputeLevel, std::vector<Tensor>> results;
    for (const RecomputeLevel recompute : kRecomputeLevels) {
      LlamaConfig config = kin(router);
      config.recompute = recompute;
      const auto model = make_model(config);
      const Variable loss = loss_of(*model, some_tokens(2, 9));
      loss.backward();
      results[recompute].push_back(loss.value());
      for (const NamedParameter& p : model->parameters())
        if (p.variable.grad().defined()) results[recompute].push_back(p.variable.grad());
    }
    for (const RecomputeLevel recompute : kRecomputeLevels)
      CHECK(same_bits(results[recompute], results[RecomputeLevel::kNone]));
  }
}

TEST_CASE("llama kin: decoding equals the whole forward pass") {
  for (const RouterKey router : kRouters) {
    const auto model = make_model(kin(router));
    const Tensor tokens = some_tokens(1, 12), whole = model->forward(tokens).logits.value();
    const std::vector<Tensor> rows = decoded(*model, tokens, 5);
    REQUIRE(rows.size() == 8);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::int64_t v = 0; v < kVocab; ++v)
        CHECK(rows[i].data<float>()[v] ==
              Approx(whole.data<float>()[(4 + static_cast<std::int64_t>(i)) * kVocab + v]).margin(2e-5));
    }
  }
}

// A long sequence projects the selected heads alone (head_projection_pays), a token by itself all of them.
TEST_CASE("llama kin: queries of selected heads alone have their biases and norms") {
  LlamaConfig config = kin(routers::kLearned);
  config.kv_heads = 4;
  config.head_dim = 32;
  config.max_positions = 160;
  config.moh.top_k = 1;
  const auto model = make_model(config);
  const Tensor tokens = some_tokens(1, 160), whole = model->forward(tokens).logits.value();
  const std::vector<Tensor> rows = decoded(*model, tokens, 150);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t v = 0; v < kVocab; ++v)
      CHECK(rows[i].data<float>()[v] ==
            Approx(whole.data<float>()[(149 + static_cast<std::int64_t>(i)) * kVocab + v]).margin(1e-4));
  }
}

// Normalised queries have about one length, of which the router would learn nothing.
TEST_CASE("llama kin: a query-norm router looks at the queries before their norm") {
  LlamaConfig config = kin(routers::kQueryNorm);
  const auto model = make_model(config);
  config.qk_norm = false;
  const auto plain = make_model(config);
  for (const NamedParameter& p : plain->parameters()) {
    for (const NamedParameter& q : model->parameters())
      if (p.name == q.name) p.variable.value().copy_from(q.variable.value());
  }
  const Tensor tokens = some_tokens(2, 9);
  const Tensor a = model->forward(tokens).routing[0].load, b = plain->forward(tokens).routing[0].load;
  CHECK(std::ranges::equal(a.span<float>(), b.span<float>()));
}

TEST_CASE("llama kin: dynamic scaling stretches sequences beyond the original context alone") {
  LlamaConfig config = kin(routers::kNone), plain_config = config;
  plain_config.rope_scaling = {};
  config.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 8};
  const auto model = make_model(config), plain = make_model(plain_config);
  const auto logits_of = [](const Llama& llama, std::int64_t length) {
    return llama.forward(some_tokens(1, length)).logits.value();
  };
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::ranges::equal(a.span<float>(), b.span<float>());
  };
  CHECK(same(logits_of(*model, 8), logits_of(*plain, 8)));
  CHECK_FALSE(same(logits_of(*model, 9), logits_of(*plain, 9)));
  const Tensor long_ago = logits_of(*model, 12);
  CHECK(same(logits_of(*model, 8), logits_of(*plain, 8)));  // nothing is remembered
  CHECK(same(logits_of(*model, 12), long_ago));
  // As in one forward pass, for a prompt that is decoded at once.
  const Tensor last = decoded(*model, some_tokens(1, 12), 12).front();
  for (std::int64_t v = 0; v < kVocab; ++v)
    CHECK(last.data<float>()[v] == Approx(long_ago.data<float>()[11 * kVocab + v]).margin(2e-5));
  CHECK_THROWS_AS(logits_of(*model, 17), ShapeError);
  const DryRunScope no_memory;
  CHECK_NOTHROW(Llama(config, DType::kFloat32).forward(some_tokens(1, 12)));
}
