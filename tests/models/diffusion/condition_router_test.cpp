#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/diffusion/dit.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama_config.h"
#include "models/vision/vit_config.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/diffusion_loss.h"
#include "tests/models/parameter_gradients.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kSamples = 3, kTokens = 16, kHeads = 6;

DitConfig conditioned() {
  DitConfig c{.image_size = 8,
              .patch_size = 2,
              .channels = 3,
              .classes = 5,
              .layers = 2,
              .hidden = 12,
              .heads = kHeads};
  c.moh = {.router = routers::kCondition, .num_shared = 2, .top_k = 2};
  return c;
}

DitInput three_samples(DType dtype = DType::kFloat32) {
  const Tensor images = empty({kSamples, 3, 8, 8}, dtype);
  fill_normal(images, {5, 6}, 0, 1);
  return {Variable(images), tensor_of<std::int64_t>({kSamples}, {0, 999, 400}),
          tensor_of<std::int64_t>({kSamples}, {1, 5, 3})};
}

/// A model without zeros, so that every part of it counts.
void stir(const Dit& model) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.variable.requires_grad()) fill_normal(p.variable.value(), initialisation_key(9, p.name), 0, 0.3);
  }
}

Variable loss_of(const Dit& model, const DitInput& input) {
  const DitOutput output = model.forward(input, {.training = true});
  const Tensor noise = empty_like(input.images.value());
  fill_normal(noise, {7, 8}, 0, 1);
  const Tensor factors = full({kSamples, kDiffusionFactors}, 0.5, noise.dtype());
  Variable loss = diffusion_loss(output.prediction, {noise, input.images.value(), noise, factors}).loss;
  for (const LayerRouting& layer : output.routing) loss = add(loss, layer.balance);
  return loss;
}

class Choices : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override { choices.push_back(*trace.choice); }
  std::vector<HeadChoice> choices;
};

/// The faults of a configuration: "key: expected, found; why".
template <class Config>
std::vector<std::string> faults_of(const Config& config) {
  ConfigFaults faults("model.");
  check(config, faults);
  std::vector<std::string> texts;
  for (const ConfigFaults::Fault& fault : faults.all())
    texts.push_back(fault.keys[0] + ": " + fault.expected + ", " + fault.found + "; " + fault.fix);
  return texts;
}

}  // namespace

TEST_CASE("condition router: all tokens of a sample have one selection, and lists all of them or none") {
  Dit model(conditioned(), DType::kFloat32);
  stir(model);
  Choices seen;
  const NoGrad no_grad;
  model.forward(three_samples(), {.observer = &seen});
  REQUIRE(seen.choices.size() == 2);
  bool samples_differ = false;
  for (const HeadChoice& choice : seen.choices) {
    REQUIRE(choice.gates.shape() == Shape{kSamples, kTokens, kHeads});
    const float* gates = choice.gates.value().data<float>();
    for (std::int64_t b = 0; b < kSamples; ++b) {
      const float *first = gates + b * kTokens * kHeads, *others = gates;
      CHECK(std::count_if(first, first + kHeads, [](float gate) { return gate != 0; }) == 4);
      for (std::int64_t t = 1; t < kTokens; ++t) CHECK(std::equal(first, first + kHeads, first + t * kHeads));
      for (std::int64_t h = 0; h < kHeads; ++h) samples_differ |= (first[h] != 0) != (others[h] != 0);
    }
    const auto offsets = choice.lists.offsets.span<std::int64_t>();
    REQUIRE(offsets.size() == kSamples * kHeads + 1);
    for (std::size_t l = 1; l < offsets.size(); ++l) {
      const std::int64_t rows = offsets[l] - offsets[l - 1];
      CHECK((rows == 0 || rows == kTokens));
    }
    CHECK(choice.routing.selected.shape() == Shape{kSamples, kHeads});
  }
  CHECK(samples_differ);
}

TEST_CASE("condition router: the balance loss and the loads are those of the samples") {
  Dit model(conditioned(), DType::kFloat32);
  stir(model);
  const DitOutput output = model.forward(three_samples(), {.training = true});
  for (const LayerRouting& layer : output.routing) {
    double kept = 0;
    for (const float load : layer.load.span<float>()) {
      CHECK(std::abs(load * kSamples - std::round(load * kSamples)) < 1e-5);
      kept += load;
    }
    CHECK(kept == Approx(2));
    CHECK(layer.computed_heads == 4);
  }
}

TEST_CASE("condition router: gradients reach the routers and the embeddings of time step and class") {
  DitConfig config = conditioned();
  config.learn_variance = false;  // its bound takes the noise for a constant
  Dit model(config, Placement(DType::kFloat64));
  stir(model);
  const DitInput input = three_samples(DType::kFloat64);
  std::vector<NamedParameter> parameters = router_parameters(model);
  CHECK(parameters.size() == 6);  // wg, wg_0 and wg_1 of two layers
  for (const NamedParameter& p : model.parameters()) {
    if (p.name == "t_embedder.mlp.2.bias" || p.name == "y_embedder.embedding_table.weight")
      parameters.push_back(p);
  }
  REQUIRE(parameters.size() == 8);
  check_parameter_gradients(parameters, [&] { return loss_of(model, input); });
}

TEST_CASE("condition router: recomputing changes no bit, nor do the others of a batch") {
  const auto gradients = [](RecomputeLevel level) {
    DitConfig config = conditioned();
    config.recompute = level;
    Dit model(config, DType::kFloat32);
    stir(model);
    loss_of(model, three_samples()).backward();
    std::vector<Tensor> all;
    for (const NamedParameter& p : model.parameters()) all.push_back(p.variable.grad());
    return all;
  };
  CHECK(same_bits(gradients(RecomputeLevel::kLayer), gradients(RecomputeLevel::kNone)));

  Dit model(conditioned(), DType::kFloat32);
  stir(model);
  const DitInput all = three_samples();
  const DitInput last{Variable(all.images.value().slice(2, 3)), all.steps.slice(2, 3),
                      all.labels.slice(2, 3)};
  CHECK(same_bits(model.forward(last).prediction.value(), model.forward(all).prediction.value().slice(2, 3)));
}

TEST_CASE("condition router: families whose samples have no condition refuse it by name") {
  const MohConfig moh{.router = routers::kCondition, .num_shared = 2, .top_k = 2};
  LlamaConfig llama;
  llama.moh = moh;
  CHECK(faults_of(llama) == std::vector<std::string>{"model.moh.router: one of none, learned, query_norm, "
                                                     "static, condition; condition reads the condition of "
                                                     "a sample, which only diffusion transformers have"});
  VitConfig vit;
  vit.moh = moh;
  CHECK(faults_of(vit) ==
        std::vector<std::string>{
            "model.moh.router: one of none, learned, static, condition; condition reads the "
            "condition of a sample, which only diffusion transformers have"});
  CHECK(faults_of(conditioned()).empty());
  DitConfig masked = conditioned();
  masked.moh.learn_shared_until = 0.5;
  CHECK(faults_of(masked).size() == 1);
}
