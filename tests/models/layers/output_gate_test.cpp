// Models of every family with sigmoid gates of attention's output.

#include "models/layers/output_gate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "core/random.h"
#include "models/diffusion/dit.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "models/vision/transnext.h"
#include "models/vision/vit.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/models/llm/tiny_llama.h"
#include "tests/models/vision/image_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// A model and its output for an input of its own.
struct Subject {
  std::unique_ptr<Model> model;
  std::function<Tensor(const ForwardContext&)> run;
};
/// Makes a model of one family with these gates; random parameters, of one value for one name.
using Make = std::function<Subject(AttentionGate, DType)>;

template <class M>
std::unique_ptr<M> stirred(std::unique_ptr<M> model) {
  model->initialise(3);
  for (const NamedParameter& p : model->parameters()) {
    if (is_matrix(p)) fill_normal(p.variable.value(), initialisation_key(9, p.name), 0, 0.3);
  }
  return model;
}

Subject llama(RouterKey router, AttentionGate gate, DType dtype) {
  LlamaConfig config = tiny_llama(router);
  config.attention_gate = gate;
  auto model = stirred(std::make_unique<Llama>(config, dtype));
  const Llama& used = *model;
  return {std::move(model), [&used](const ForwardContext& context) {
            return used.forward(some_tokens(2, 9), context).logits.value();
          }};
}

template <class M, class Config>
Subject image_model(Config config, AttentionGate gate, DType dtype) {
  config.attention_gate = gate;
  auto model = stirred(std::make_unique<M>(config, dtype));
  const M& used = *model;
  return {std::move(model), [&used, dtype](const ForwardContext& context) {
            return used.forward(some_images(32, 32, dtype), context).logits.value();
          }};
}

VitConfig small_vit() {
  return {.image_size = 32,
          .patch_size = 8,
          .classes = 5,
          .layers = 2,
          .hidden = 16,
          .heads = 4,
          .moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2}};
}

TransNextConfig small_transnext() {
  return {.classes = 5,
          .dims = {8, 16},
          .heads = {2, 4},
          .depths = {1, 1},
          .mlp_ratios = {4, 4},
          .pool_ratios = {2, 1},
          .pretrain_size = 32};
}

Subject dit(AttentionGate gate, DType dtype) {
  const DitConfig config{.image_size = 8,
                         .patch_size = 2,
                         .channels = 3,
                         .classes = 5,
                         .layers = 2,
                         .hidden = 16,
                         .heads = 4,
                         .attention_gate = gate};
  auto model = stirred(std::make_unique<Dit>(config, dtype));
  const Dit& used = *model;
  return {std::move(model), [&used, dtype](const ForwardContext& context) {
            const Tensor images = empty({2, 3, 8, 8}, dtype);
            fill_normal(images, {5, 6}, 0, 1);
            return used
                .forward({Variable(images), tensor_of<std::int64_t>({2}, {0, 999}),
                          tensor_of<std::int64_t>({2}, {1, 5})},
                         context)
                .prediction.value();
          }};
}

std::vector<std::pair<std::string, Make>> families() {
  return {{"llama", [](auto gate, auto dtype) { return llama(routers::kNone, gate, dtype); }},
          {"routed llama", [](auto gate, auto dtype) { return llama(routers::kLearned, gate, dtype); }},
          {"routed vit", [](auto gate, auto dtype) { return image_model<Vit>(small_vit(), gate, dtype); }},
          {"transnext",
           [](auto gate, auto dtype) { return image_model<TransNext>(small_transnext(), gate, dtype); }},
          {"dit", dit}};
}

/// The first layer of a pass.
struct FirstLayer : AttentionObserver {
  void observe(const AttentionTrace& trace) override {
    if (trace.layer != 0) return;
    x = trace.x;
    heads = trace.heads;
  }
  Tensor x, heads;
};

FirstLayer first_layer(const Subject& subject) {
  FirstLayer seen;
  subject.run({.observer = &seen});
  return seen;
}

/// sigmoid(W x) of a head's element, element i of heads [B, T, H, d].
double gate_at(const Tensor& x, const Tensor& w, const Tensor& heads, std::int64_t i) {
  const std::int64_t width = x.dim(-1), of_token = heads.dim(-2) * heads.dim(-1);
  const std::int64_t row = i % of_token / (of_token / w.dim(0));
  double logit = 0;
  for (std::int64_t j = 0; j < width; ++j)
    logit += double{w.data<float>()[row * width + j]} * x.data<float>()[i / of_token * width + j];
  return 1 / (1 + std::exp(-logit));
}

constexpr AttentionGate kGates[] = {AttentionGate::kHead, AttentionGate::kElement};

}  // namespace

TEST_CASE("output gate: in every family the heads' outputs are multiplied by sigmoids of the layer's input") {
  for (const auto& [name, make] : families()) {
    const FirstLayer plain = first_layer(make(AttentionGate::kNone, DType::kFloat32));
    for (const AttentionGate gate : kGates) {
      INFO(name << ", elements: " << (gate == AttentionGate::kElement));
      const Subject gated = make(gate, DType::kFloat32);
      const FirstLayer seen = first_layer(gated);
      const Tensor w = gated_projections(*gated.model).front().gate.variable.value();
      const std::int64_t heads = seen.heads.dim(-2), d = seen.heads.dim(-1);
      CHECK(w.shape() == Shape{gate == AttentionGate::kHead ? heads : heads * d, seen.x.dim(-1)});
      REQUIRE(same_bits(seen.x, plain.x));
      for (std::int64_t i = 0; i < seen.heads.numel(); ++i) {
        const float before = plain.heads.data<float>()[i];
        CHECK(seen.heads.data<float>()[i] ==
              Approx(before * gate_at(seen.x, w, seen.heads, i)).epsilon(1e-4).margin(1e-6));
        if (before == 0) CHECK(seen.heads.data<float>()[i] == 0);
      }
    }
  }
}

TEST_CASE("output gate: gates that are added to a trained model keep the bits of its outputs") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [name, make] : families()) {
      const Tensor expected = make(AttentionGate::kNone, dtype).run({});
      for (const AttentionGate gate : kGates) {
        INFO(name << ", " << dtype_name(dtype));
        const Subject gated = make(gate, dtype);
        CHECK_FALSE(same_bits(gated.run({}), expected));
        start_gates(gated_projections(*gated.model));
        CHECK(same_bits(gated.run({}), expected));
      }
    }
  }
}

TEST_CASE("output gate: every layer has one, beside its output projection") {
  for (const auto& [name, make] : families()) {
    INFO(name);
    CHECK(gated_projections(*make(AttentionGate::kNone, DType::kFloat32).model).empty());
    const Subject gated = make(AttentionGate::kHead, DType::kFloat32);
    const auto found = gated_projections(*gated.model);
    CHECK(found.size() == 2);
    for (const GatedProjection& g : found) CHECK(gated.model->decays(g.gate));
  }
  const Subject llama_model = llama(routers::kNone, AttentionGate::kHead, DType::kFloat32);
  const GatedProjection last = gated_projections(*llama_model.model).back();
  CHECK(last.gate.name == "model.layers.1.self_attn.output_gate.weight");
  CHECK(last.projection.name == "model.layers.1.self_attn.o_proj.weight");
}

TEST_CASE("output gate: decoding equals the whole forward pass") {
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    for (const AttentionGate gate : kGates) {
      const Subject subject = llama(router, gate, DType::kFloat32);
      const auto& model = static_cast<const Llama&>(*subject.model);
      const Tensor whole = subject.run({});
      KvCache cache = model.make_cache(2, 9);
      for (std::int64_t t = 0; t < 9; ++t) {
        const Tensor token = empty({2, 1}, DType::kInt64);
        for (std::int64_t b = 0; b < 2; ++b)
          token.data<std::int64_t>()[b] = some_tokens(2, 9).data<std::int64_t>()[b * 9 + t];
        const Tensor row = model.decode(token, cache);
        for (std::int64_t i = 0; i < row.numel(); ++i) {
          const std::int64_t b = i / 19, v = i % 19;
          CHECK(row.data<float>()[i] ==
                Approx(whole.data<float>()[(b * 9 + t) * 19 + v]).epsilon(1e-4).margin(1e-4));
        }
      }
    }
  }
}

TEST_CASE("output gate: recomputing the layers changes no bit") {
  for (const AttentionGate gate : kGates) {
    std::vector<Tensor> results[2];
    for (const bool recompute : {false, true}) {
      LlamaConfig config = tiny_llama();
      config.attention_gate = gate;
      if (recompute) config.recompute = RecomputeLevel::kLayer;
      const auto model = made(config);
      const Variable loss = cross_entropy(model->forward(some_tokens(2, 9)).logits, some_tokens(2, 9));
      loss.backward();
      results[recompute].push_back(loss.value());
      for (const NamedParameter& p : model->parameters()) results[recompute].push_back(p.variable.grad());
    }
    CHECK(same_bits(results[0], results[1]));
  }
}

TEST_CASE("output gate: the rows of a file's tensor tell its form") {
  CHECK(gate_of_rows(0, 16) == AttentionGate::kNone);
  CHECK(gate_of_rows(4, 16) == AttentionGate::kHead);
  CHECK(gate_of_rows(16, 16) == AttentionGate::kElement);
}
