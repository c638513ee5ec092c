// llama_model and llama_moh_attention: the released MoH-LLaMA3 and its dense form, outputs and gradients.

#include "tests/golden/llama_golden.h"

#include <algorithm>
#include <string>

#include "models/llm/llama.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/reference_choice.h"

using namespace moh;
using namespace moh::test;

namespace {

/// The reference's selection, for ForwardContext::forced_top.
std::vector<Tensor> imposed_choices(const GoldenCase& golden, const LlamaConfig& config) {
  std::vector<Tensor> choices;
  for (std::int64_t i = 0; i < config.layers; ++i)
    choices.push_back(imposed_choice(golden, numbered("router", static_cast<std::size_t>(i))));
  return choices;
}

/// Gates and selections of all layers, by `forward`, which hands its context to a model or a layer.
template <class Forward>
void check_choices(const GoldenCase& golden, std::span<const Tensor> imposed, const Forward& forward) {
  LayerTraces own, weighted;
  forward({.observer = &own});
  forward({.observer = &weighted, .forced_top = imposed});
  REQUIRE(own.size() == imposed.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    check_router(golden, numbered("router", i), own[i].choice.value().routing);
    golden.check(numbered("attn", i) + ".head_weights", weighted[i].choice.value().gates.value());
  }
}

// llama_model.

void check_cross_entropy(const GoldenCase& golden, const Variable& logits, const Llama& model,
                         const std::string& loss, const std::string& grad) {
  zero_gradients(model);
  const Variable ce = next_token_loss(logits, golden.tensor("in.labels"));
  golden.check(loss, ce.value());
  ce.backward();
  golden.check_gradients(model, grad);
}

void check_routed(const GoldenCase& golden, const LlamaConfig& config) {
  Llama model(config, DType::kFloat32);
  golden.load(model, "param.");
  const Tensor ids = golden.tensor("in.input_ids"), w = golden.tensor("w.logits");
  const std::vector<Tensor> imposed = imposed_choices(golden, config);
  check_choices(golden, imposed, [&](const ForwardContext& context) { model.forward(ids, context); });

  const ForwardContext context{.forced_top = imposed};
  const Variable logits = model.forward(ids, context).logits;
  golden.check("out.logits", logits.value());
  golden.check("out.loss", weighted_sum(logits.value(), w));
  logits.backward(w);
  golden.check_gradients(model, "grad.param.");
  check_cross_entropy(golden, model.forward(ids, context).logits, model, "out.ce_loss", "grad_ce.param.");
}

/// The outputs of the layers, which a model shows nobody.
void check_layers(const GoldenCase& golden, const LlamaConfig& config) {
  const RopeTable table =
      RotaryEmbedding(config, DType::kFloat32).rows(0, golden.tensor("in.input_ids").dim(1));
  const std::vector<Tensor> imposed = imposed_choices(golden, config);
  ResidualStream stream{
      embedding(Variable(golden.tensor("param.model.embed_tokens.weight")), golden.tensor("in.input_ids"))};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const LlamaLayer layer(config, i, DType::kFloat32);
    golden.load(layer, "param.model.layers." + std::to_string(i) + ".");
    stream = layer.forward(stream, table, {.forced_top = imposed}).stream;
    golden.check(numbered("layer", static_cast<std::size_t>(i)) + ".out", stream.sum().value());
  }
}

void check_dense(const GoldenCase& golden) {
  Llama dense(dense_llama(golden.config()), DType::kFloat32);
  golden.load(dense, "param.");
  const Variable logits = dense.forward(golden.tensor("in.input_ids")).logits;
  golden.check("out.dense.logits", logits.value());
  check_cross_entropy(golden, logits, dense, "out.dense.ce_loss", "grad_ce_dense.param.");
}

}  // namespace

GOLDEN_KIND(llama_model) {
  LlamaConfig config = routed_llama(golden);
  for (const RecomputeLevel level : kRecomputeLevels) {
    INFO("recompute " << static_cast<int>(level));
    config.recompute = level;
    check_routed(golden, config);
  }
  check_layers(golden, config);
  check_dense(golden);
}

TEST_CASE("golden: llama decoding with a cache equals the whole forward pass, row by row", "[shared]") {
  for_each_golden("llama_model", [](const GoldenCase& golden) {
    const Tensor ids = golden.tensor("in.input_ids");
    for (const bool moh : {true, false}) {
      const LlamaConfig config = moh ? routed_llama(golden) : dense_llama(golden.config());
      Llama model(config, DType::kFloat32);
      golden.load(model, "param.");
      const std::string name = moh ? "out.logits" : "out.dense.logits";
      const Tensor expected = golden.tensor(name), logits = expected.clone();
      const std::int64_t batch = ids.dim(0), length = ids.dim(1), vocab = expected.dim(2);
      KvCache cache = model.make_cache(batch, length);
      // Several tokens at once, then one after the other. decode() returns the logits of the last one.
      const std::int64_t first = std::max<std::int64_t>(length / 4, 1);
      for (std::int64_t done = 0, chunk = first; done < length; chunk = 1) {
        const Tensor tokens = empty({batch, chunk}, DType::kInt64);
        for (std::int64_t b = 0; b < batch; ++b)
          tokens.select(b).copy_from(ids.select(b).slice(done, done + chunk));
        const Tensor last = model.decode(tokens, cache);
        done += chunk;
        for (std::int64_t b = 0; b < batch; ++b)
          logits.select(b).select(done - 1).copy_from(last.select(b).reshape({vocab}));
      }
      golden.check(name, logits);
    }
  });
}

// llama_moh_attention.

namespace {

/// Cosines and sines for the tokens of a sequence, wherever they stand.
RopeTable table_of(const LlamaConfig& config, const Tensor& positions) {
  const auto rows = positions.span<std::int64_t>();
  const RopeTable all = rope_table(std::ranges::max(rows) + 1, config.head_dim, config.rope_theta);
  const auto of_tokens = [&](const Tensor& table) { return embedding(Variable(table), positions).value(); };
  return {of_tokens(all.cos), of_tokens(all.sin)};
}

/// The half-width table for positions 0, 1 ..., repeated for both halves of a head.
void check_rope_table(const GoldenCase& golden, const LlamaConfig& config) {
  const Tensor cos = golden.tensor("const.rope_cos"), sin = golden.tensor("const.rope_sin");
  const RopeTable table = rope_table(cos.dim(0), config.head_dim, config.rope_theta);
  const auto twice = [](const Tensor& half) {
    Tensor whole = empty({half.dim(0), 2 * half.dim(1)}, DType::kFloat32);
    for (std::int64_t p = 0; p < half.dim(0); ++p) {
      for (std::int64_t i = 0; i < 2 * half.dim(1); ++i)
        whole.data<float>()[p * 2 * half.dim(1) + i] = half.data<float>()[p * half.dim(1) + i % half.dim(1)];
    }
    return whole;
  };
  golden.check("const.rope_cos", twice(table.cos));
  golden.check("const.rope_sin", twice(table.sin));
}

/// Some tokens of sequence b of x [B, T, ...], as a batch of one.
Variable tokens_of(const Tensor& x, std::int64_t b, const std::vector<std::int64_t>& tokens) {
  const Tensor sequence = x.select(b);
  std::vector<std::int64_t> shape = {1, static_cast<std::int64_t>(tokens.size())};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  const Tensor taken = empty(Shape(shape), x.dtype());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    taken.select(0).select(static_cast<std::int64_t>(i)).copy_from(sequence.select(tokens[i]));
  return Variable(taken);
}

/// The layer's output when keys of padding are masked, too, token by token: each sees those of itself and the
/// tokens before it that are real. What one without any such key computes is open: the reference's own.
Tensor padded_output(const GoldenCase& golden, const LlamaConfig& config, const RopeTable& table,
                     const Tensor& imposed) {
  const Tensor x = golden.tensor("in.x"), mask = golden.tensor("in.attention_mask");
  Tensor out = golden.tensor("out.y_padded").clone();
  const auto project = [&](const std::string& name, std::int64_t heads) {
    return reshape(linear(Variable(x), Variable(golden.tensor("param." + name + "_proj.weight"))),
                   {x.dim(0), x.dim(1), heads, config.head_dim});
  };
  const Tensor q = project("q", config.heads).value(), v = project("v", config.kv_heads).value();
  const Tensor turned_q = rope(Variable(q), table).value(),
               k = rope(project("k", config.kv_heads), table).value();
  const HeadRouter router(config.hidden, config.kv_heads, config.head_dim, routing_of(config, 0),
                          DType::kFloat32);
  const Variable w(golden.tensor("param.o_proj.weight"));
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    std::vector<std::int64_t> keys;
    for (std::int64_t t = 0; t < x.dim(1); ++t) {
      if (mask.select(b).data<std::int64_t>()[t] != 0) keys.push_back(t);
      if (keys.empty()) continue;
      const Tensor top = imposed.defined() ? imposed.slice(b * x.dim(1) + t, b * x.dim(1) + t + 1) : Tensor();
      const HeadChoice choice = router({.x = tokens_of(x, b, {t}), .queries = tokens_of(q, b, {t})},
                                       {.forced_top = {&top, imposed.defined() ? 1U : 0U}});
      const Variable heads =
          head_sparse_attention(tokens_of(turned_q, b, {t}), tokens_of(k, b, keys), tokens_of(v, b, keys),
                                choice.gates, choice.lists, {.causal = false});
      out.select(b).select(t).copy_from(linear(reshape(heads, {1, -1}), w).value().select(0));
    }
  }
  return out;
}

}  // namespace

GOLDEN_KIND(llama_moh_attention) {
  const LlamaConfig config = routed_llama(golden);
  const Tensor positions = golden.tensor("in.position_ids");
  for (std::int64_t b = 1; b < positions.dim(0); ++b)  // a table is one for the whole batch
    REQUIRE(std::ranges::equal(positions.select(b).span<std::int64_t>(),
                               positions.select(0).span<std::int64_t>()));
  const RopeTable table = table_of(config, positions.select(0));
  check_rope_table(golden, config);

  const LlamaAttention layer(config, 0, DType::kFloat32),
      dense(dense_llama(golden.config()), 0, DType::kFloat32);
  golden.load(layer, "param.");
  golden.load(dense, "param.");
  Variable x(golden.tensor("in.x"), true);
  const Tensor w = golden.tensor("w.y"), imposed = imposed_choice(golden, numbered("router", 0));
  check_choices(golden, {&imposed, 1},
                [&](const ForwardContext& context) { layer.forward(x, table, context); });
  LayerTraces all;
  golden.check("out.y_dense", layer.forward(x, table, {.observer = &all, .all_heads = true}).y.value());
  golden.check(numbered("attn", 0) + ".head_out", all[0].heads);
  golden.check("out.y_dense", dense.forward(x, table).y.value());

  const Variable y = layer.forward(x, table, {.forced_top = {&imposed, 1}}).y;
  golden.check("out.y", y.value());
  golden.check("out.loss", weighted_sum(y.value(), w));
  y.backward(w);
  golden.check_gradients(layer, "grad.param.");
  golden.check("grad.in.x", x.grad());
  golden.check("out.y_padded", padded_output(golden, config, table, imposed));
}
