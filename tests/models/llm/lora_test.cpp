// Low-rank adapters of LLaMA's maps: what they compute, what is trained, wrong settings.

#include "models/llm/lora.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "autograd/node.h"
#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/matmul.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/tiny_llama.h"
#include "tests/models/parameter_gradients.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

LlamaConfig with_adapters(LlamaConfig c, std::vector<std::string> targets = LoraConfig().targets) {
  c.lora = {.rank = 3, .alpha = 4, .targets = std::move(targets)};
  return c;
}

Tensor some_tokens(std::int64_t batch, std::int64_t length) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i)
    tokens.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(random_below({5, 5}, static_cast<std::uint64_t>(i), 19));
  return tokens;
}

Variable loss_of(const Llama& model, const Tensor& tokens, const ForwardContext& context = {}) {
  const LlamaOutput output = model.forward(tokens, context);
  Variable loss = cross_entropy(output.logits, tokens, {.normalizer = static_cast<double>(tokens.numel())});
  for (const LayerRouting& layer : output.routing)
    if (layer.balance.defined()) loss = add(loss, scale(layer.balance, 0.01));
  return loss;
}

/// A model whose adapters add something.
std::unique_ptr<Llama> tuned_model(const LlamaConfig& config, DType dtype = DType::kFloat64) {
  auto model = std::make_unique<Llama>(config, dtype);
  model->initialise(3);
  for (const NamedParameter& p : model->parameters())
    if (p.name.ends_with("lora_B.weight"))
      fill_normal(p.variable.value(), initialisation_key(4, p.name), 0, 0.1);
  return model;
}

std::map<std::string, Variable> by_name(const Model& model) {
  std::map<std::string, Variable> found;
  for (const NamedParameter& p : model.parameters()) found[p.name] = p.variable;
  return found;
}

/// The model without adapters that computes the same: W + alpha / rank B A, in plain loops.
std::unique_ptr<Llama> merged_model(const Llama& tuned) {
  LlamaConfig config = tuned.config();
  const double factor = config.lora.scale();
  config.lora = {};
  auto model = std::make_unique<Llama>(config, DType::kFloat64);
  const auto from = by_name(tuned);
  for (const auto& [name, variable] : by_name(*model)) {
    variable.value().copy_from(from.at(name).value());
    const std::string map = name.substr(0, name.rfind('.'));
    if (!name.ends_with(".weight") || !from.contains(map + ".lora_A.weight")) continue;
    const Tensor a = from.at(map + ".lora_A.weight").value(), b = from.at(map + ".lora_B.weight").value();
    for (std::int64_t i = 0; i < variable.numel(); ++i)
      for (std::int64_t k = 0; k < a.dim(0); ++k)
        variable.value().data<double>()[i] += factor * b.data<double>()[i / a.dim(1) * a.dim(0) + k] *
                                              a.data<double>()[k * a.dim(1) + i % a.dim(1)];
  }
  return model;
}

void check_close(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  for (std::int64_t i = 0; i < a.numel(); ++i)
    REQUIRE(a.data<double>()[i] == Approx(b.data<double>()[i]).epsilon(1e-7).margin(1e-10));
}

/// Checks logits and gradients against those of the merged model, of whose weights' gradients dW the
/// adapters' follow: dA = s B^T dW, dB = s dW A^T.
void check_against_merged(const LlamaConfig& config, const Tensor& tokens,
                          const ForwardContext& context = {}) {
  const auto tuned = tuned_model(config);
  const auto merged = merged_model(*tuned);
  check_close(tuned->forward(tokens, context).logits.value(),
              merged->forward(tokens, context).logits.value());
  loss_of(*tuned, tokens, context).backward();
  loss_of(*merged, tokens, context).backward();
  const auto of_tuned = by_name(*tuned), of_merged = by_name(*merged);
  const NoGrad no_grad;
  int adapters = 0;
  for (const auto& [name, variable] : of_tuned) {
    INFO(name);
    const std::string map = name.substr(0, name.find(".lora_"));
    if (!is_adapter(name)) {
      CHECK(variable.grad().defined() == variable.requires_grad());
      if (variable.requires_grad()) check_close(variable.grad(), of_merged.at(name).grad());
      continue;
    }
    ++adapters;
    const Tensor dw = of_merged.at(map + ".weight").grad();
    const Tensor a = of_tuned.at(map + ".lora_A.weight").value();
    const Tensor b = of_tuned.at(map + ".lora_B.weight").value();
    const Tensor expected = name.ends_with("lora_A.weight") ? matmul(transposed(b), dw, DType::kFloat64)
                                                            : matmul(dw, transposed(a), DType::kFloat64);
    check_close(variable.grad(), scale(Variable(expected), config.lora.scale()).value());
  }
  CHECK(adapters == 2 * config.layers * std::ssize(config.lora.targets));
}

}  // namespace

TEST_CASE("models: new adapters leave every bit of the model's output as it is") {
  const Tensor tokens = some_tokens(2, 9);
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Llama plain(tiny_llama(router), dtype), adapted(with_adapters(tiny_llama(router)), dtype);
      plain.initialise(3);
      adapted.initialise(3);
      CHECK(same_bits(plain.forward(tokens).logits.value(), adapted.forward(tokens).logits.value()));
    }
  }
}

TEST_CASE("models: A begins uniform within 1 / sqrt(in), B with zeros") {
  Llama model(with_adapters(tiny_llama()), DType::kFloat32);
  model.initialise(3);
  const auto found = by_name(model);
  const Tensor a = found.at("model.layers.1.mlp.down_proj.lora_A.weight").value();
  CHECK(a.shape() == Shape{3, 24});
  double largest = 0, squares = 0;
  for (const float value : a.span<float>()) {
    largest = std::max(largest, std::abs(double{value}));
    squares += double{value} * value;
  }
  CHECK(largest <= 1 / std::sqrt(24.0));
  CHECK(std::sqrt(squares / static_cast<double>(a.numel())) == Approx(1 / std::sqrt(3 * 24.0)).epsilon(0.2));
  const Tensor b = found.at("model.layers.1.mlp.down_proj.lora_B.weight").value();
  CHECK(same_bits(b, zeros({16, 3}, DType::kFloat32)));
}

TEST_CASE("models: the gradients of adapters and routers are the differences of the loss") {
  const auto model = tuned_model(with_adapters(tiny_llama(), {"q_proj", "v_proj", "o_proj", "up_proj"}));
  const Tensor tokens = some_tokens(1, 7);
  std::vector<NamedParameter> trained = model->parameters();
  std::erase_if(trained, [](const NamedParameter& p) { return !p.variable.requires_grad(); });
  check_parameter_gradients(trained, [&] { return loss_of(*model, tokens); });
}

TEST_CASE("models: adapters compute what the merged weights do, forward and backward") {
  const Tensor tokens = some_tokens(2, 9);
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    for (const RecomputeLevel level : kRecomputeLevels) {
      LlamaConfig c = with_adapters(tiny_llama(router));
      c.recompute = level;
      check_against_merged(c, tokens);
    }
    check_against_merged(with_adapters(tiny_llama(router)), tokens, {.equal_rows = true});
  }
  LlamaConfig kin = with_adapters(tiny_llama(), {"k_proj", "gate_proj"});
  kin.qk_norm = kin.qkv_bias = kin.o_bias = kin.mlp_bias = true;
  kin.lora.full = {"norms", "embeddings"};
  check_against_merged(kin, tokens);
  LlamaConfig sequences = with_adapters(tiny_llama());
  sequences.kv_heads = sequences.heads;
  sequences.moh.routed = RoutedRows::kQueriesKeysValues;
  check_against_merged(sequences, tokens);
}

TEST_CASE("models: adapters go with projections of the selected heads alone") {
  LlamaConfig c = with_adapters(tiny_llama());
  c.head_dim = 32;  // then head_projection_pays()
  c.max_positions = 160;
  c.moh.top_k = 1;
  check_against_merged(c, some_tokens(1, 150));
}

TEST_CASE("models: decoding with adapters equals the whole forward pass") {
  const auto model = tuned_model(with_adapters(tiny_llama()), DType::kFloat32);
  const Tensor tokens = some_tokens(1, 8), whole = model->forward(tokens).logits.value();
  KvCache cache = model->make_cache(1, 8);
  for (std::int64_t t = 0; t < 8; ++t) {
    const Tensor logits = model->decode(tokens.select(0).slice(t, t + 1).reshape({1, 1}), cache);
    for (std::int64_t v = 0; v < 19; ++v)
      CHECK(logits.data<float>()[v] == Approx(whole.data<float>()[t * 19 + v]).margin(1e-5));
  }
}

TEST_CASE("models: with adapters these, routers and gates are trained, and what `full` names") {
  const auto trained = [](const LlamaConfig& config) {
    std::string names;
    for (const NamedParameter& p : Llama(config, DType::kFloat32).parameters()) {
      if (p.variable.requires_grad() && p.name.find("layers.1.") == std::string::npos && !is_adapter(p.name))
        names += p.name.substr(p.name.starts_with("model.") ? 6 : 0) + " ";
    }
    return names;
  };
  LlamaConfig c = with_adapters(tiny_llama());
  c.attention_gate = AttentionGate::kHead;
  const std::string routers = "layers.0.self_attn.wg.weight layers.0.self_attn.wg_0.weight ";
  const std::string gate = "layers.0.self_attn.output_gate.weight ";
  CHECK(trained(c) == gate + routers);
  c.lora.full = {"norms"};
  CHECK(trained(c) == "layers.0.input_layernorm.weight " + gate + routers +
                          "layers.0.post_attention_layernorm.weight norm.weight ");
  c.lora.full = {"embeddings"};
  CHECK(trained(c) == "embed_tokens.weight " + gate + routers + "lm_head.weight ");
}

TEST_CASE("models: adapters refuse what they cannot be") {
  const auto refusal = [](const LoraConfig& lora) -> std::string {
    LlamaConfig c = tiny_llama();
    c.lora = lora;
    try {
      require_valid(c);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({.rank = 2}).empty());
  CHECK(refusal({.rank = 2, .targets = {"q_proj", "qkv"}}) ==
        "llama: lora.targets: expected names of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "
        "down_proj, found \"qkv\"");
  CHECK(refusal({.rank = 2, .targets = {"q_proj", "q_proj"}}) ==
        "llama: lora.targets: expected each name once, found q_proj twice");
  CHECK(refusal({.rank = 2, .targets = {}}) ==
        "llama: lora.targets: expected one or more names with lora.rank, found none");
  CHECK(refusal({.rank = 2, .full = {"mlp"}}) ==
        "llama: lora.full: expected names of norms, embeddings, found \"mlp\"");
  CHECK(refusal({.full = {"norms"}}) ==
        "llama: lora.full: expected an empty list without lora.rank, as "
        "everything is trained, found \"norms\"");
  CHECK(refusal({.rank = -1}) == "llama: lora.rank: expected 0 or more, found -1");
  CHECK(refusal({.rank = 2, .alpha = 0}) == "llama: lora.alpha: expected a number above 0, found 0");
  LlamaConfig mixture = tiny_llama(routers::kNone);
  mixture.switch_head = {2, 1};
  mixture.lora.rank = 2;
  CHECK_THROWS_WITH(require_valid(mixture),
                    "llama: lora.rank: expected 0 with switch_head.experts, whose values and outputs are "
                    "mixtures, found 2");
}
