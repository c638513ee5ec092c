#include "models/llm/llama.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "models/find_preset.h"
#include "models/llm/llama_presets.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "ops/optim/adamw.h"
#include "tests/models/llm/tiny_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

Tensor some_tokens(std::int64_t batch, std::int64_t length, std::int64_t vocab) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    tokens.data<std::int64_t>()[i] = static_cast<std::int64_t>(
        random_below({5, 5}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

Variable loss_of(const Llama& model, const Tensor& tokens, const ForwardContext& context = {}) {
  const LlamaOutput output = model.forward(tokens, context);
  Variable loss = cross_entropy(output.logits, tokens, {.normalizer = static_cast<double>(tokens.numel())});
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) loss = add(loss, scale(layer.balance, 0.01));
  }
  return loss;
}

std::vector<Tensor> gradients_of(const Llama& model) {
  std::vector<Tensor> gradients;
  for (NamedParameter& p : model.parameters()) {
    gradients.push_back(p.variable.grad());
    p.variable.zero_grad();
  }
  return gradients;
}

std::vector<std::pair<std::string, std::string>> tensors(const Llama& model) {
  std::vector<std::pair<std::string, std::string>> names_and_shapes;
  for (const NamedParameter& p : model.parameters())
    names_and_shapes.emplace_back(p.name, describe(p.variable.value()));
  return names_and_shapes;
}
std::vector<std::pair<std::string, std::string>> tensors_in_dry_run(const LlamaConfig& config) {
  const DryRunScope no_memory;
  return tensors(Llama(config, DType::kFloat32));
}

}  // namespace

TEST_CASE("models: LLaMA's packed projections have the bits of separate ones, as decoding computes them") {
  const RouterKey router = GENERATE(RouterKey(routers::kNone), RouterKey(routers::kLearned));
  Llama model(tiny_llama(router), DType::kFloat32);
  model.initialise(3);
  const Tensor tokens = some_tokens(2, 7, 19);
  const ForwardContext separate{.equal_rows = true};
  CHECK(same_bits(model.forward(tokens).logits.value(), model.forward(tokens, separate).logits.value()));
  loss_of(model, tokens).backward();
  const std::vector<Tensor> packed = gradients_of(model);
  loss_of(model, tokens, separate).backward();
  const std::vector<Tensor> other = gradients_of(model);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    for (std::int64_t j = 0; j < packed[i].numel(); ++j)
      CHECK(packed[i].data<float>()[j] == Approx(other[i].data<float>()[j]).epsilon(1e-4).margin(1e-6));
  }
}

TEST_CASE("models: matrices that LLaMA multiplies as one lie one behind the other") {
  LlamaConfig config = tiny_llama();
  config.moh.num_shared = 2;  // a single one has no logit
  config.moh.top_k = 1;
  const Llama model(config, DType::kFloat32);
  std::map<std::string, Tensor> values;
  for (const NamedParameter& p : model.parameters()) values[p.name] = p.variable.value();
  const std::string layer = "model.layers.1.";
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
        {"mlp.gate_proj", "mlp.up_proj"},
        {"self_attn.wg", "self_attn.wg_0", "self_attn.wg_1"}}) {
    std::vector<Tensor> matrices;
    for (const std::string& name : names) matrices.push_back(values.at(layer + name + ".weight"));
    CHECK(joined_rows(matrices).defined());
  }
}

TEST_CASE("models: presets have the published parameter counts, to the last unit") {
  const std::vector<std::pair<const char*, std::int64_t>> published = {
      {"llm_s", 185617152},
      {"llm_b", 880879104},
      {"moh_llm_s_75", 185746176},
      {"moh_llm_s_50", 185746176},
      {"moh_llm_b_75", 881542656},
      {"moh_llm_b_50", 881542656},
      {"llama3_8b", 8030261248},
      {"llama3_8b_stage1", 8297648128},
      {"moh_llama3_8b", 8297648128},
      // Baselines: 4 matrices of a layer with fewer rows or columns, of llama3_8b those of q and o.
      {"dense_llm_s_75", 185617152 - 12 * 4 * 768 * 3 * 64},
      {"dense_llm_s_50", 185617152 - 12 * 4 * 768 * 6 * 64},
      {"dense_llm_b_75", 880879104 - 24 * 4 * 1536 * 4 * 96},
      {"dense_llm_b_50", 880879104 - 24 * 4 * 1536 * 8 * 96},
      {"dense_llama3_8b_75", 8297648128 - std::int64_t{32} * 2 * 4096 * 8 * 128}};
  for (const auto& [name, count] : published) {
    INFO(name);
    const LlamaPreset* preset = find_preset(llama_presets(), name);
    REQUIRE(preset != nullptr);
    const DryRunScope no_memory;
    CHECK(count_parameters(Llama(preset->config, DType::kFloat32)) == count);
  }
  CHECK(llama_presets().size() == published.size());
  CHECK(find_preset(llama_presets(), "llm_x") == nullptr);
  CHECK(activated_heads(routing_of(find_preset(llama_presets(), "moh_llm_s_50")->config)) == 0.5);
  CHECK(activated_heads(routing_of(find_preset(llama_presets(), "moh_llm_b_75")->config)) == 0.75);
  CHECK(activated_heads(routing_of(find_preset(llama_presets(), "moh_llama3_8b")->config)) == 0.75);
  CHECK(activated_heads(routing_of(find_preset(llama_presets(), "llm_s")->config)) == 1.0);
  for (const std::string name : {"llm_s_75", "llm_s_50", "llm_b_75", "llm_b_50", "llama3_8b_75"}) {
    const std::string of_moh = name == "llama3_8b_75" ? "moh_llama3_8b" : "moh_" + name;
    const LlamaConfig dense = find_preset(llama_presets(), "dense_" + name)->config;
    const LlamaConfig routed = find_preset(llama_presets(), of_moh)->config;
    CHECK(dense.heads == computed_heads(routing_of(routed, 0), false));
    CHECK(dense.head_dim == routed.head_dim);
    CHECK(dense.kv_heads == std::min(routed.kv_heads, dense.heads));
  }
}

TEST_CASE("models: a model made in a dry run has the parameters of a real one, under Hugging Face's names") {
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    for (const bool tied : {false, true}) {
      LlamaConfig c = tiny_llama(router);
      c.tied_embeddings = tied;
      if (router != routers::kNone) {  // layer 1 keeps all heads on
        c.moh.num_shared = PerLayer({1, 4});
        c.moh.top_k = PerLayer({2, 0});
      }
      const Llama model(c, DType::kFloat32);
      CHECK(tensors_in_dry_run(c) == tensors(model));
      std::set<std::string> names;
      for (const NamedParameter& p : model.parameters()) names.insert(p.name);
      CHECK(names.count("model.embed_tokens.weight") == 1);
      CHECK(names.count("model.layers.1.self_attn.q_proj.weight") == 1);
      CHECK(names.count("model.layers.0.post_attention_layernorm.weight") == 1);
      CHECK(names.count("model.layers.0.mlp.down_proj.weight") == 1);
      CHECK(names.count("lm_head.weight") == (tied ? 0 : 1));
      CHECK(names.count("model.layers.0.self_attn.wg.weight") == (router == routers::kLearned ? 1 : 0));
      CHECK(names.count("model.layers.1.self_attn.wg_1.weight") == (router == routers::kLearned ? 1 : 0));
      CHECK(names.count("model.layers.1.self_attn.wg.weight") == 0);
    }
  }
}

TEST_CASE("models: every parameter gets a gradient, and dense and MoH start from the same numbers") {
  Llama moh_model(tiny_llama(), DType::kFloat32), dense(tiny_llama(routers::kNone), DType::kFloat32);
  moh_model.initialise(3);
  dense.initialise(3);
  loss_of(moh_model, some_tokens(2, 8, 19)).backward();
  for (const NamedParameter& p : moh_model.parameters()) {
    INFO(p.name);
    CHECK(p.variable.grad().defined());
  }
  for (const NamedParameter& p : dense.parameters()) {
    for (const NamedParameter& q : moh_model.parameters()) {
      if (p.name != q.name) continue;
      CHECK(std::memcmp(p.variable.value().raw(), q.variable.value().raw(), p.variable.value().bytes()) == 0);
    }
  }
}

TEST_CASE("models: recomputing the layers changes no bit of loss, gradients or routing statistics") {
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    const Tensor tokens = some_tokens(2, 9, 19);
    std::vector<std::vector<Tensor>> gradients;
    std::vector<double> losses;
    std::vector<std::vector<Tensor>> loads;
    for (const RecomputeLevel recompute : kRecomputeLevels) {
      LlamaConfig c = tiny_llama(router);
      c.recompute = recompute;
      c.dropout = 0.2;
      Llama model(c, DType::kFloat32);
      model.initialise(3);
      Generator generator(1, 2);
      const ForwardContext context{.training = true, .generator = &generator};
      loads.emplace_back();
      for (const LayerRouting& layer : model.forward(tokens, context).routing)
        loads.back().push_back(layer.load);
      generator.restore(0);
      const Variable loss = loss_of(model, tokens, context);
      losses.push_back(loss.value().item());
      loss.backward();
      gradients.push_back(gradients_of(model));
    }
    for (std::size_t i = 1; i < kRecomputeLevels.size(); ++i) {
      CHECK(losses[0] == losses[i]);
      CHECK(same_bits(gradients[0], gradients[i]));
      CHECK(same_bits(loads[0], loads[i]));
    }
  }
}

TEST_CASE("models: the more is recomputed, the fewer activations a pass of LLaMA keeps, by known sizes") {
  constexpr std::int64_t kTokens = 64;
  const auto kept_of_layer = [](RecomputeLevel level) {
    std::int64_t kept[2] = {0, 0};
    for (const int layers : {1, 2}) {
      LlamaConfig c = tiny_llama(routers::kNone);
      c.layers = layers;
      c.hidden = 256;
      c.heads = c.kv_heads = 4;
      c.head_dim = 64;
      c.intermediate = 512;
      c.max_positions = kTokens;
      c.recompute = level;
      const DryRunScope dry;
      const Llama model(c, DType::kFloat32);
      const Tensor tokens = empty({1, kTokens}, DType::kInt64);
      const std::int64_t before = dry.memory()->usage(kCpu).stats.total.current_bytes;
      const LlamaOutput output = model.forward(tokens);
      kept[layers - 1] = dry.memory()->usage(kCpu).stats.total.current_bytes - before;
    }
    return static_cast<double>(kept[1] - kept[0]) / (kTokens * sizeof(float));
  };
  // Elements of a token: both sums and norms, queries, keys and values, the heads, gate and up, their
  // product.
  constexpr double kD = 256, kF = 512;
  const std::map<RecomputeLevel, double> expected = {{RecomputeLevel::kNone, 4 * kD + 3 * kD + kD + 3 * kF},
                                                     {RecomputeLevel::kNorms, 2 * kD + 3 * kD + kD + 2 * kF},
                                                     {RecomputeLevel::kMlp, 2 * kD + 3 * kD + kD},
                                                     {RecomputeLevel::kAttention, 2 * kD + 2 * kF},
                                                     {RecomputeLevel::kMlpAndAttention, 2 * kD},
                                                     {RecomputeLevel::kLayer, kD}};
  for (const RecomputeLevel level : kRecomputeLevels) {
    INFO(static_cast<int>(level));
    CHECK(kept_of_layer(level) ==
          Approx(expected.at(level)).epsilon(0.02));  // statistics of rows, and of norms
  }
}

TEST_CASE("models: decoding token by token, and in chunks, equals the whole forward pass") {
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    Llama model(tiny_llama(router), DType::kFloat32);
    model.initialise(4);
    const Tensor tokens = some_tokens(2, 12, 19);
    const Tensor whole = model.forward(tokens).logits.value();
    for (const std::int64_t capacity : {12, 15}) {
      for (const std::int64_t chunk : {1, 3, 12}) {
        KvCache cache = model.make_cache(2, capacity);
        for (std::int64_t t = 0; t < 12; t += chunk) {
          const Tensor part = empty({2, chunk}, tokens.dtype());
          for (const std::int64_t b : {0, 1}) part.select(b).copy_from(tokens.select(b).slice(t, t + chunk));
          const Tensor logits = model.decode(part, cache);
          for (std::int64_t i = 0; i < 2 * 19; ++i) {
            const std::int64_t row = i / 19 * 12 + t + chunk - 1;
            CHECK(logits.data<float>()[i] == Approx(whole.data<float>()[row * 19 + i % 19]).margin(1e-5));
          }
        }
      }
    }
  }
}

TEST_CASE("models: rope scaling reaches the forward pass and decoding") {
  LlamaConfig plain = tiny_llama(routers::kNone), scaled = plain;
  scaled.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 12};
  Llama a(plain, DType::kFloat32), b(scaled, DType::kFloat32);
  a.initialise(4);
  b.initialise(4);
  const Tensor tokens = some_tokens(1, 12, 19);
  const Tensor plain_logits = a.forward(tokens).logits.value(), logits = b.forward(tokens).logits.value();
  KvCache cache = b.make_cache(1, 12);
  const Tensor last = b.decode(tokens, cache);
  double largest = 0;
  for (std::int64_t v = 0; v < 19; ++v) {
    CHECK(last.data<float>()[v] == Approx(logits.data<float>()[11 * 19 + v]).margin(1e-5));
    largest = std::max(largest, std::abs(double{logits.data<float>()[11 * 19 + v]} -
                                         plain_logits.data<float>()[11 * 19 + v]));
  }
  CHECK(largest > 1e-6);
}

TEST_CASE("models: permuting the batch permutes the logits: routing couples no sequences") {
  Llama model(tiny_llama(), DType::kFloat32);
  model.initialise(4);
  const Tensor tokens = some_tokens(2, 7, 19), swapped = empty_like(tokens);
  swapped.select(0).copy_from(tokens.select(1));
  swapped.select(1).copy_from(tokens.select(0));
  const Tensor a = model.forward(tokens).logits.value(), b = model.forward(swapped).logits.value();
  for (std::int64_t i = 0; i < 7 * 19; ++i) {
    CHECK(a.data<float>()[i] == Approx(b.data<float>()[7 * 19 + i]).margin(1e-6));
  }
}

TEST_CASE("models: with K = E and zero routers, a MoH model is the dense model") {
  LlamaConfig c = tiny_llama();
  c.moh.top_k = 3;
  Llama moh_model(c, DType::kFloat32), dense(tiny_llama(routers::kNone), DType::kFloat32);
  moh_model.initialise(3);
  dense.initialise(3);
  for (const NamedParameter& p : moh_model.parameters()) {
    if (p.name.find(".wg") != std::string::npos) p.variable.value().fill(0);
  }
  const Tensor tokens = some_tokens(2, 7, 19);
  const Tensor a = moh_model.forward(tokens).logits.value(), b = dense.forward(tokens).logits.value();
  for (std::int64_t i = 0; i < a.numel(); ++i)
    CHECK(a.data<float>()[i] == Approx(b.data<float>()[i]).margin(1e-6));
}

TEST_CASE("models: a MoH model learns one batch by heart") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    LlamaConfig c = tiny_llama();
    c.hidden = 32;
    Llama model(c, dtype);
    model.initialise(1);
    const Tensor tokens = some_tokens(2, 9, 19), targets = some_tokens(3, 9, 19).slice(1, 3);
    std::vector<AdamWParameter> state;
    for (const NamedParameter& p : model.parameters()) {
      const Tensor& value = p.variable.value();
      state.push_back({value,
                       {},
                       zeros(value.shape(), DType::kFloat32),
                       zeros(value.shape(), DType::kFloat32),
                       dtype == DType::kBFloat16 ? value.to(DType::kFloat32) : Tensor()});
    }
    double loss = 0;
    for (std::int64_t step = 1; step <= 150; ++step) {
      const Variable value = cross_entropy(model.forward(tokens).logits, targets,
                                           {.normalizer = static_cast<double>(targets.numel())});
      loss = value.value().item();
      value.backward();
      const std::vector<Tensor> gradients = gradients_of(model);
      for (std::size_t i = 0; i < state.size(); ++i) {
        state[i].grad = gradients[i].defined() ? gradients[i] : zeros_like(state[i].exp_avg);
      }
      adamw(state, {.step = step, .learning_rate = 1e-2});
    }
    INFO(dtype_name(dtype));
    CHECK(loss < 0.05);  // ln 19 = 2.9 at the start
  }
}

TEST_CASE("models: configurations that contradict themselves are refused") {
  const auto refused = [](auto change) {
    LlamaConfig c = tiny_llama();
    change(c);
    return c;
  };
  CHECK_THROWS_WITH(require_valid(refused([](LlamaConfig& c) { c.kv_heads = 3; })),
                    "llama: kv_heads: expected a divisor of heads (4), found 3");
  CHECK_THROWS_WITH(require_valid(refused([](LlamaConfig& c) { c.head_dim = 5; })),
                    "llama: head_dim: expected an even number (rotary positions rotate pairs), found 5");
  CHECK_THROWS_WITH(
      require_valid(refused([](LlamaConfig& c) {
        c.moh.num_shared = PerLayer({1, 1, 1});
      })),
      "llama: moh.num_shared: expected one value, or one per layer (layers is 2), found a list of 3");
  CHECK_THROWS_AS(require_valid(refused([](LlamaConfig& c) { c.moh.top_k = 4; })), ValueError);
  CHECK_THROWS_AS(require_valid(refused([](LlamaConfig& c) {
                    c.rope_scaling = {RopeScalingKind::kLlama3, 8, 4, 1};
                  })),
                  ValueError);
  CHECK_THROWS_AS(require_valid(refused([](LlamaConfig& c) { c.layers = 0; })), ValueError);
  Llama model(tiny_llama(), DType::kFloat32);
  model.initialise(1);
  CHECK_THROWS_AS(model.forward(some_tokens(1, 17, 19)), ShapeError);
  CHECK_THROWS_AS(model.forward(full({1, 2}, 19, DType::kInt64)), ValueError);
  CHECK_THROWS_AS(model.make_cache(1, 17), ValueError);
  KvCache cache = model.make_cache(1, 4);
  CHECK_THROWS_AS(model.decode(some_tokens(1, 5, 19), cache), ShapeError);
}

TEST_CASE("models: an evaluation keeps no graph and a training step allocates nothing new after the first") {
  Llama model(tiny_llama(), DType::kFloat32);
  model.initialise(1);
  const Tensor tokens = some_tokens(2, 9, 19);
  const auto step = [&] {
    loss_of(model, tokens).backward();
    gradients_of(model);
  };
  step();
  const std::int64_t asked = CpuAllocator::instance().stats().system_allocations;
  const std::int64_t in_use = CpuAllocator::instance().stats().total.current_bytes;
  for (int i = 0; i < 3; ++i) step();
  CHECK(CpuAllocator::instance().stats().system_allocations == asked);
  CHECK(CpuAllocator::instance().stats().total.current_bytes == in_use);
  const NoGrad no_grad;
  CHECK_FALSE(loss_of(model, tokens).requires_grad());
}
