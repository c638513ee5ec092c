// llama_model and llama_moh_attention: the released MoH-LLaMA3 and its dense form, outputs and gradients.

#include <cstdlib>
#include <string>

#include "models/llm/llama.h"
#include "ops/attention/attention.h"
#include "ops/linalg/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/shape/reshape.h"
#include "tests/golden/golden_case.h"
#include "tests/support/skip.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"
#include "train/weights/locate_model.h"

using namespace moh;
using namespace moh::test;

namespace {

/// The released code fixes the heads: half of them shared, a quarter kept of the rest, gates 1, no router
/// gradient.
void set_routing(LlamaConfig& config, bool moh) {
  if (!moh) return;
  config.moh.router = RouterKind::kQueryNorm;
  config.moh.num_shared = config.heads / 2;
  config.moh.top_k = config.heads / 4;
  config.moh.straight_through = StraightThrough::kNone;
}

LlamaConfig attention_config(const nlohmann::json& c, bool moh) {
  LlamaConfig config;
  config.hidden = c.at("hidden_size");
  config.heads = c.at("num_attention_heads");
  config.kv_heads = c.at("num_key_value_heads");
  config.head_dim = config.hidden / config.heads;
  config.rope_theta = c.at("rope_theta");
  config.max_positions = c.at("max_position_embeddings");
  config.layers = 1;
  set_routing(config, moh);
  return config;
}

LlamaConfig model_config(const nlohmann::json& c, bool moh) {
  LlamaConfig config = attention_config(c, moh);
  config.vocab_size = c.at("vocab_size");
  config.intermediate = c.at("intermediate_size");
  config.layers = c.at("num_hidden_layers");
  config.norm_eps = c.at("rms_norm_eps");
  return config;
}

/// Targets of next-token prediction: labels moved one to the left, the last position ignored.
Tensor shifted(const Tensor& labels) {
  const Tensor targets = full(labels.shape(), -100, DType::kInt64);
  for (std::int64_t b = 0; b < labels.dim(0); ++b) {
    for (std::int64_t t = 0; t + 1 < labels.dim(1); ++t) {
      targets.data<std::int64_t>()[b * labels.dim(1) + t] =
          labels.data<std::int64_t>()[b * labels.dim(1) + t + 1];
    }
  }
  return targets;
}

double count_targets(const Tensor& targets) {
  double count = 0;
  for (std::int64_t t : targets.span<std::int64_t>()) count += t != -100;
  return count;
}

void zero_gradients(const Module& module) {
  for (NamedParameter& p : module.parameters()) p.variable.zero_grad();
}

void check_cross_entropy(const GoldenCase& golden, const Llama& model, const std::string& loss,
                         const std::string& grad) {
  zero_gradients(model);
  const Tensor targets = shifted(golden.tensor("in.labels"));
  const Variable logits = model.forward(golden.tensor("in.input_ids")).logits;
  const Variable ce = cross_entropy(logits, targets, {.normalizer = count_targets(targets)});
  golden.check(loss, ce.value());
  ce.backward();
  golden.check_gradients(model, grad);
}

}  // namespace

TEST_CASE("golden: llama_model") {
  for_each_golden("llama_model", [](const GoldenCase& golden) {
    const Tensor ids = golden.tensor("in.input_ids");
    for (const bool recompute : {false, true}) {
      INFO("recompute " << recompute);
      LlamaConfig config = model_config(golden.config(), /*moh=*/true);
      config.recompute = recompute ? RecomputeLevel::kLayer : RecomputeLevel::kNone;
      Llama model(config, DType::kFloat32);
      golden.load(model, "param.");
      const Variable logits = model.forward(ids).logits;
      golden.check("out.logits", logits.value());
      logits.backward(golden.tensor("w.logits"));
      golden.check_gradients(model, "grad.param.");
      check_cross_entropy(golden, model, "out.ce_loss", "grad_ce.param.");
    }
    Llama dense(model_config(golden.config(), /*moh=*/false), DType::kFloat32);
    golden.load(dense, "param.");
    golden.check("out.dense.logits", dense.forward(ids).logits.value());
    check_cross_entropy(golden, dense, "out.dense.ce_loss", "grad_ce_dense.param.");
  });
}

namespace {

/// The layer's output when keys of padding are masked, too. Padding stands at the end, so row b attends to
/// its first `valid` keys, causally: real tokens see what they always see, padded ones the real tokens.
Tensor padded_output(const GoldenCase& golden, const LlamaConfig& config, const RopeTable& table) {
  const Variable x(golden.tensor("in.x"));
  const Tensor mask = golden.tensor("in.attention_mask");
  const std::int64_t batch = x.dim(0), length = x.dim(1);
  const auto project = [&](const char* name, std::int64_t heads) {
    return reshape(linear(x, Variable(golden.tensor(std::string("param.") + name + "_proj.weight"))),
                   {batch, length, heads, config.head_dim});
  };
  const Variable q = project("q", config.heads);
  const Tensor k = rope(project("k", config.kv_heads), table).value(),
               v = project("v", config.kv_heads).value();
  const HeadRouter router(config.hidden, config.kv_heads, config.head_dim, routing_of(config, 0),
                          DType::kFloat32);
  const Tensor out = empty({batch, length, config.hidden}, DType::kFloat32);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t valid = 0;
    for (std::int64_t m : mask.select(b).span<std::int64_t>()) valid += m;
    const auto row = [&](const Tensor& all) { return Variable(all.slice(b, b + 1)); };
    const auto keys = [&](const Tensor& all) {
      return Variable(all.select(b).slice(0, valid).reshape({1, valid, config.kv_heads, config.head_dim}));
    };
    const HeadChoice choice = router(row(x.value()), row(q.value()));
    const Variable heads = head_sparse_attention(rope(row(q.value()), table), keys(k), keys(v), choice.gates,
                                                 choice.lists, {.causal = true});
    const Variable w(golden.tensor("param.o_proj.weight"));
    out.slice(b, b + 1).copy_from(linear(reshape(heads, {1, length, -1}), w).value());
  }
  return out;
}

}  // namespace

TEST_CASE("golden: llama_moh_attention") {
  for_each_golden("llama_moh_attention", [](const GoldenCase& golden) {
    const auto& c = golden.config();
    REQUIRE(c.at("first_position") == 0);
    const LlamaConfig config = attention_config(c, /*moh=*/true);
    const RopeTable table = rope_table(config.max_positions, config.head_dim, config.rope_theta);
    LlamaAttention moh_layer(config, 0, DType::kFloat32),
        dense(attention_config(c, /*moh=*/false), 0, DType::kFloat32);
    golden.load(moh_layer, "param.");
    golden.load(dense, "param.");
    Variable x(golden.tensor("in.x"), true);
    const LayerOutput out = moh_layer.forward(x, table);
    golden.check("out.y", out.y.value());
    out.y.backward(golden.tensor("w.y"));
    golden.check_gradients(moh_layer, "grad.param.");
    golden.check("grad.in.x", x.grad());
    golden.check("out.y_padded", padded_output(golden, config, table));
    golden.check("out.y_dense", dense.forward(Variable(golden.tensor("in.x")), table).y.value());

    // const.rope_* repeat the half-width table twice, for both halves of a head.
    const Tensor cos = golden.tensor("const.rope_cos"), sin = golden.tensor("const.rope_sin");
    const std::int64_t half = table.cos.dim(1);
    for (std::int64_t p = 0; p < cos.dim(0); ++p) {
      for (std::int64_t i = 0; i < 2 * half; ++i) {
        CHECK(table.cos.data<float>()[p * half + i % half] ==
              Approx(cos.data<float>()[p * 2 * half + i]).margin(2e-6));
        CHECK(table.sin.data<float>()[p * half + i % half] ==
              Approx(sin.data<float>()[p * 2 * half + i]).margin(2e-6));
      }
    }
  });
}

TEST_CASE("golden: llama decoding with a cache equals the whole forward pass, row by row") {
  for_each_golden("llama_model", [](const GoldenCase& golden) {
    const Tensor ids = golden.tensor("in.input_ids");
    for (const bool moh : {true, false}) {
      Llama model(model_config(golden.config(), moh), DType::kFloat32);
      golden.load(model, "param.");
      const std::string name = moh ? "out.logits" : "out.dense.logits";
      const Tensor expected = golden.tensor(name);
      const std::int64_t batch = ids.dim(0), length = ids.dim(1), vocab = expected.dim(2);
      KvCache cache = model.make_cache(batch, length);
      const Tensor logits = empty(expected.shape(), DType::kFloat32);
      std::int64_t done = 0;
      for (const std::int64_t chunk : {std::int64_t{3}, std::int64_t{1}}) {
        while (done + chunk <= (chunk > 1 ? chunk : length)) {
          const Tensor tokens = empty({batch, chunk}, DType::kInt64);
          for (std::int64_t b = 0; b < batch; ++b)
            tokens.select(b).copy_from(ids.select(b).slice(done, done + chunk));
          const Tensor last = model.decode(tokens, cache);
          done += chunk;
          for (std::int64_t b = 0; b < batch; ++b) {
            logits.select(b).select(done - 1).copy_from(last.select(b).reshape({vocab}));
          }
        }
      }
      // decode() returns the last position of each chunk; the first chunk's earlier rows are not looked at.
      for (std::int64_t b = 0; b < batch; ++b)
        logits.select(b).slice(0, 2).copy_from(expected.select(b).slice(0, 2));
      golden.check(name, logits);
    }
  });
}

TEST_CASE("golden: llama_model from the shards of a Hugging Face folder") {
  // Weights in bfloat16 of the routed model; the expected logits were computed from them in float32.
  const std::filesystem::path folder =
      std::filesystem::path(MOH_SOURCE_DIR) / "tests/golden/data/hf_llama_tiny";
  const GoldenCase golden(folder / "sharded_expected.safetensors");
  const Llama model(model_config(golden.config(), /*moh=*/true), DType::kFloat32);
  const auto weights = open_weights(locate_model(folder / "sharded"));
  CHECK(weights->format() == "safetensors in 2 shards");
  CHECK(compare_weights(infos_of(tensors_of(model.parameters())), *weights).none());
  load_weights(model.parameters(), *weights);
  golden.check("out.logits", model.forward(golden.tensor("in.input_ids")).logits.value());
}

TEST_CASE("golden: llama_model from a Hugging Face folder with one file") {
  const char* shared = std::getenv("MOH_SHARED");
  if (shared == nullptr) MOH_SKIP("MOH_SHARED is not set");
  const auto weights = open_weights(locate_model(std::filesystem::path(shared) / "golden/hf_llama_tiny"));
  for_each_golden("llama_model", [&](const GoldenCase& golden) {
    const Llama model(model_config(golden.config(), /*moh=*/false), DType::kFloat32);
    CHECK(compare_weights(infos_of(tensors_of(model.parameters())), *weights).none());
    load_weights(model.parameters(), *weights);
    for (const NamedParameter& p : model.parameters()) golden.check("param." + p.name, p.variable.value());
    golden.check("out.dense.logits", model.forward(golden.tensor("in.input_ids")).logits.value());
  });
}
