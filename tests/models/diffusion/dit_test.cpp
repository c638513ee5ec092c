#include "models/diffusion/dit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/random.h"
#include "models/diffusion/sinusoids.h"
#include "models/find_preset.h"
#include "ops/elementwise/add.h"
#include "ops/loss/diffusion_loss.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

DitConfig small_model(bool routed = true) {
  DitConfig c{.image_size = 8,
              .patch_size = 2,
              .channels = 3,
              .classes = 5,
              .layers = 3,
              .hidden = 16,
              .heads = std::vector<std::int64_t>{2, 4, 6},
              .head_dim = 4};
  if (routed) {
    c.moh = {.router = routers::kLearned,
             .num_shared = std::vector<std::int64_t>{2, 1, 2},
             .top_k = std::vector<std::int64_t>{0, 2, 1}};
  }
  return c;
}

DitInput some_input(const DitConfig& c, DType dtype = DType::kFloat32) {
  const Tensor images = empty({2, c.channels, c.image_size, c.image_size}, dtype);
  fill_normal(images, {5, 6}, 0, 1);
  return {Variable(images), tensor_of<std::int64_t>({2}, {0, 999}),
          tensor_of<std::int64_t>({2}, {1, c.no_class()})};
}

/// Moves zeros away, so that every part of the network counts.
void stir(const Dit& model) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.variable.requires_grad()) fill_normal(p.variable.value(), initialisation_key(9, p.name), 0, 0.3);
  }
}

/// Loss and gradients of a step.
std::vector<Tensor> step_of(const DitConfig& config) {
  Dit model(config, DType::kFloat32);
  model.initialise(3);
  stir(model);
  const DitInput input = some_input(config);
  const DitOutput output = model.forward(input, {.training = true});
  const Tensor noise = empty_like(input.images.value());
  fill_normal(noise, {7, 8}, 0, 1);
  const Tensor factors = full({2, kDiffusionFactors}, 0.5, DType::kFloat32);
  Variable loss = diffusion_loss(output.prediction, {noise, input.images.value(), noise, factors}).loss;
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) loss = add(loss, layer.balance);
  }
  loss.backward();
  std::vector<Tensor> results = {loss.value()};
  for (const NamedParameter& p : model.parameters()) {
    INFO(p.name);
    if (p.name == "pos_embed") {
      CHECK_FALSE(p.variable.requires_grad());
      continue;
    }
    REQUIRE(p.variable.grad().defined());
    results.push_back(p.variable.grad());
  }
  return results;
}

}  // namespace

TEST_CASE("dit: presets have the published parameter counts, to the last unit") {
  for (const auto& [name, count] : {std::pair{"dit_s_2", 32963360},
                                    {"dit_b_2", 130512416},
                                    {"dit_l_2", 458102816},
                                    {"dit_xl_2", 675129632},
                                    {"moh_dit_s_2_90", 32997152},
                                    {"moh_dit_s_2_75", 32998688},
                                    {"moh_dit_b_2_90", 130638368},
                                    {"moh_dit_b_2_75", 130638368},
                                    {"moh_dit_l_2_90", 458512416},
                                    {"moh_dit_l_2_75", 458528800},
                                    {"moh_dit_xl_2_90", 675666464},
                                    {"moh_dit_xl_2_75", 675689504}}) {
    INFO(name);
    const DitPreset* preset = find_preset(dit_presets(), name);
    REQUIRE(preset != nullptr);
    const DryRunScope no_memory;
    CHECK(count_parameters(Dit(preset->config, DType::kFloat32)) == count);
  }
  CHECK(dit_presets().size() == 20);
}

TEST_CASE("dit: presets activate the published shares of their heads") {
  for (const auto& [name, percent] : {std::pair{"moh_dit_s_2_90", 88.89},
                                      {"moh_dit_s_2_75", 75.0},
                                      {"moh_dit_b_2_90", 89.58},
                                      {"moh_dit_b_2_75", 75.0},
                                      {"moh_dit_l_2_90", 89.58}}) {
    const DitPreset* preset = find_preset(dit_presets(), name);
    REQUIRE(preset != nullptr);
    CHECK(100 * activated_heads(routing_of(preset->config)) == Approx(percent).margin(0.005));
  }
}

TEST_CASE("dit: a new model predicts zeros, from fixed positions, and begins as the reference does") {
  Dit model(small_model(), DType::kFloat32);
  model.initialise(1);
  const Variable prediction = model.forward(some_input(small_model())).prediction;
  for (const float y : prediction.value().span<float>()) CHECK(y == 0);
  for (const NamedParameter& p : model.parameters()) {
    const auto values = p.variable.value().span<float>();
    double squares = 0, most = 0;
    for (const float v : values) squares += v * v, most = std::max(most, std::abs(static_cast<double>(v)));
    const double std = std::sqrt(squares / static_cast<double>(values.size()));
    INFO(p.name);
    if (p.name == "pos_embed") {
      CHECK(same_bits(p.variable.value(), grid_positions(4, 16).to(DType::kFloat32).reshape({1, 16, 16})));
    } else if (p.name == "blocks.1.attn.qkv.weight") {  // [48, 16]
      const double bound = std::sqrt(6.0 / (48 + 16));
      CHECK(most <= bound);
      CHECK(std == Approx(bound / std::sqrt(3.0)).epsilon(0.1));
    } else if (p.name == "t_embedder.mlp.0.weight") {
      CHECK(std == Approx(0.02).epsilon(0.1));
    } else if (p.name == "blocks.0.adaLN_modulation.1.weight" || p.name == "final_layer.linear.weight") {
      CHECK(most == 0);
    }
  }
}

TEST_CASE("dit: every trained parameter gets a gradient, and recomputing changes no bit") {
  for (const bool routed : {true, false}) {
    DitConfig config = small_model(routed);
    const std::vector<Tensor> expected = step_of(config);
    for (const RecomputeLevel level : kRecomputeLevels) {
      config.recompute = level;
      CHECK(same_bits(step_of(config), expected));
    }
  }
}

TEST_CASE("dit: a sample does not depend on the others of its batch") {
  Dit model(small_model(), DType::kFloat32);
  model.initialise(1);
  stir(model);
  const DitInput both = some_input(small_model());
  const DitInput second{Variable(both.images.value().slice(1, 2)), both.steps.slice(1, 2),
                        both.labels.slice(1, 2)};
  CHECK(same_bits(model.forward(second).prediction.value(),
                  model.forward(both).prediction.value().slice(1, 2)));
}

TEST_CASE("dit: the embedding of a time has the bits of the step of that number") {
  Dit model(small_model(), DType::kFloat32);
  model.initialise(1);
  stir(model);
  DitInput input = some_input(small_model());
  const Tensor expected = model.forward(input).prediction.value();
  input.steps = time_embeddings(kDiffusionSteps, kTimeWidth).slice(0, 2).clone();
  time_embedding(999, input.steps.select(1).span<float>());
  CHECK(same_bits(model.forward(input).prediction.value(), expected));
  time_embedding(0.4, input.steps.select(1).span<float>());
  CHECK_FALSE(same_bits(model.forward(input).prediction.value(), expected));
  input.steps = zeros({2, kTimeWidth + 2}, DType::kFloat32);
  CHECK_THROWS_AS(model.forward(input), ShapeError);
}

TEST_CASE("dit: what does not fit is refused") {
  const auto refusal = [](auto change) {
    DitConfig config = small_model();
    change(config);
    ConfigFaults faults("model.");
    check(config, faults);
    return faults.all().empty() ? std::string() : faults.all()[0].keys[0] + ": " + faults.all()[0].expected;
  };
  CHECK(refusal([](DitConfig&) {}).empty());
  CHECK(refusal([](DitConfig& c) { c.patch_size = 3; }) ==
        "model.patch_size: a divisor of model.image_size (8)");
  CHECK(refusal([](DitConfig& c) { c.head_dim = 0; }) ==
        "model.head_dim: the width of a head, where model.heads is a list");
  CHECK(refusal([](DitConfig& c) {
          c.heads = std::vector<std::int64_t>{2, 4};
        }) == "model.heads: one value, or one per layer (model.layers is 3)");
  CHECK(refusal([](DitConfig& c) { c.hidden = 18; }) ==
        "model.hidden: a multiple of 4, for sines and cosines of rows and columns");
  CHECK(refusal([](DitConfig& c) { c.moh.top_k = 9; }) ==
        "model.moh.top_k: at most 0, the heads that are not shared");
  CHECK(refusal([](DitConfig& c) { c.classes = 0; }) == "model.classes: 1 or more");
  Dit model(small_model(), DType::kFloat32);
  model.initialise(1);
  DitInput input = some_input(small_model());
  input.labels = tensor_of<std::int64_t>({2}, {1, 6});
  CHECK_THROWS_AS(model.forward(input), ValueError);
  input = some_input(small_model());
  input.steps = tensor_of<std::int64_t>({2}, {1, kDiffusionSteps});
  CHECK_THROWS_AS(model.forward(input), ValueError);
  DitConfig larger = small_model();
  larger.image_size = 16;
  CHECK_THROWS_AS(model.forward(some_input(larger)), ShapeError);
}
