// Translation models on the simulated GPU: what they compute on the CPU, forward, backward and decoding.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "tests/cuda_sim/relative_difference.h"
#include "tests/models/translation/tiny_translation.h"
#include "tests/ops/device_ways.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Logits and gradients of a training step, with every dropout, on the CPU.
std::vector<Tensor> step_of(const TranslationModel& model, const TranslationText& text) {
  const PackedPairs pairs = text.packed().to(model.device());
  Generator generator(1, 2);
  const auto output = model.forward(pairs, {.training = true, .generator = &generator});
  std::vector<Tensor> results = {output.logits.value().to(kCpu).clone()};
  const double tokens = static_cast<double>(pairs.target.numel());
  Variable loss =
      cross_entropy(output.logits, pairs.target.reshape({1, pairs.target.numel()}), {.normalizer = tokens});
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) loss = add(loss, layer.balance);
  }
  loss.backward();
  for (const NamedParameter& p : model.parameters()) results.push_back(p.variable.grad().to(kCpu));
  return results;
}

/// Logits of hypotheses that change places on the way.
std::vector<Tensor> decoded(const TranslationModel& model) {
  const Tensor source = tensor_of<std::int64_t>({5}, {3, 4, 2, 9, 2});
  Decoding decoding = model.begin(model.encode(source, std::vector<std::int64_t>{3, 2}), {0, 0, 1}, 8);
  std::vector<Tensor> logits;
  const auto step = [&](const Tensor& tokens) { logits.push_back(model.step(tokens, decoding).to(kCpu)); };
  step(tensor_of<std::int64_t>({3}, {1, 1, 1}));
  step(tensor_of<std::int64_t>({3}, {5, 6, 7}));
  decoding.select(std::vector<std::int64_t>{1, 1, 2});
  step(tensor_of<std::int64_t>({3}, {8, 9, 10}));
  return logits;
}

}  // namespace

TEST_CASE("sim: translation models of every kind compute what they do on the CPU") {
  const Device gpu = open_gpu();
  const TranslationText text = some_translations({{11, 9}, {1, 12}, {12, 1}, {7, 5}});
  for (const TranslationKind& kind : translation_kinds()) {
    INFO(kind.name);
    TranslationConfig c = kind.config;
    c.dropout = 0.2;
    c.attention_dropout = 0.3;
    c.activation_dropout = 0.1;
    TranslationModel here(c, Placement{DType::kFloat32}), there(c, Placement{DType::kFloat32, gpu});
    fill_translation(here, 5);
    fill_translation(there, 5);
    const std::vector<Tensor> expected = step_of(here, text), found = step_of(there, text);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i);
      // Biases of keys change no score, and what they get is rounding.
      const bool key_bias = i > 0 && here.parameters()[i - 1].name.ends_with("k_proj.bias");
      if (!key_bias) CHECK(relative_difference(found[i], expected[i]) < 1e-3);
    }
    const std::vector<Tensor> cpu = decoded(here), on_gpu = decoded(there);
    for (std::size_t i = 0; i < cpu.size(); ++i) CHECK(relative_difference(on_gpu[i], cpu[i]) < 1e-3);
  }
}
