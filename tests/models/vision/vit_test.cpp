#include "models/vision/vit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/random.h"
#include "models/find_preset.h"
#include "models/vision/resample.h"
#include "tests/models/vision/image_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

VitConfig small_model(VitPooling pooling = VitPooling::kClassToken, bool routed = true) {
  VitConfig c{.image_size = 16,
              .patch_size = 4,
              .classes = 5,
              .layers = 2,
              .hidden = 16,
              .heads = 4,
              .pooling = pooling};
  if (routed) c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  return c;
}

std::vector<Tensor> step_of(const VitConfig& config, std::int64_t side = 16) {
  return image_step<Vit>(config, side, 16);
}

std::set<std::string> names_of(const Vit& model) {
  std::set<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.insert(p.name);
  return names;
}

}  // namespace

TEST_CASE("vit: presets have the published parameter counts, to the last unit") {
  for (const auto& [name, count] : {std::pair{"deit_small", 22050664}, {"deit_base", 86567656}}) {
    const VitPreset* preset = find_preset(vit_presets(), name);
    REQUIRE(preset != nullptr);
    const DryRunScope no_memory;
    CHECK(count_parameters(Vit(preset->config, DType::kFloat32)) == count);
  }
  CHECK(vit_presets().size() == 2);
  CHECK(find_preset(vit_presets(), "deit_huge") == nullptr);
}

TEST_CASE("vit: parameters are named as in timm, and decay as DeiT's") {
  const Vit token(small_model(), DType::kFloat32),
      mean(small_model(VitPooling::kMean, false), DType::kFloat32);
  const std::set<std::string> names = names_of(token), of_mean = names_of(mean);
  for (const char* name : {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias",
                           "blocks.1.norm1.weight", "blocks.1.attn.qkv.bias", "blocks.1.attn.proj.weight",
                           "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.bias", "blocks.0.attn.wg.weight",
                           "blocks.0.attn.wg_0.weight", "norm.bias", "head.weight"})
    CHECK(names.contains(name));
  CHECK(of_mean.contains("fc_norm.weight"));
  for (const char* name : {"cls_token", "norm.weight", "blocks.0.attn.wg.weight"})
    CHECK_FALSE(of_mean.contains(name));
  for (const NamedParameter& p : token.parameters()) {
    const bool matrix = p.variable.shape().rank() > 1 && p.name != "pos_embed" && p.name != "cls_token";
    CHECK(token.decays(p) == matrix);
  }
}

TEST_CASE("vit: every parameter gets a gradient, and recomputing changes no bit") {
  for (const VitPooling pooling : {VitPooling::kClassToken, VitPooling::kMean}) {
    for (const bool routed : {true, false}) {
      VitConfig config = small_model(pooling, routed);
      config.drop_path = 0.4;
      const std::vector<Tensor> expected = step_of(config);
      for (const RecomputeLevel level : kRecomputeLevels) {
        config.recompute = level;
        CHECK(same_bits(step_of(config), expected));
      }
    }
  }
}

TEST_CASE("vit: images of other sizes interpolate the position embeddings") {
  for (const VitPooling pooling : {VitPooling::kClassToken, VitPooling::kMean}) {
    const std::vector<Tensor> results = step_of(small_model(pooling), 24);
    for (const Tensor& result : results) CHECK(result.all_finite());
  }
  Vit model(small_model(), DType::kFloat32);
  model.initialise(1);
  CHECK_THROWS_WITH(model.forward(some_images(16, 18)),
                    "vit: images: expected sides that are multiples of patch_size (4), found [2, 16, 18, 3]");
}

TEST_CASE("vit: bicubic weights: the identity, sums of 1, and straight lines inside the image") {
  const Tensor same = bicubic_weights({3, 4}, {3, 4});
  for (std::int64_t i = 0; i < same.numel(); ++i) CHECK(same.data<float>()[i] == (i % 13 == 0 ? 1.0F : 0.0F));
  const GridSize from{6, 8}, to{9, 4};
  const Tensor weights = bicubic_weights(from, to);
  for (std::int64_t t = 0; t < to.tokens(); ++t) {
    double sum = 0, mean_x = 0;
    for (std::int64_t s = 0; s < from.tokens(); ++s) {
      sum += weights.data<float>()[t * from.tokens() + s];
      mean_x += weights.data<float>()[t * from.tokens() + s] * (static_cast<double>(s % 8) + 0.5);
    }
    CHECK(sum == Approx(1));
    if (t % 4 == 1 || t % 4 == 2)
      CHECK(mean_x == Approx((static_cast<double>(t % 4) + 0.5) * 2).epsilon(0.02));
  }
  CHECK_THROWS_AS(bicubic_weights({0, 3}, {1, 1}), ValueError);
}

TEST_CASE("vit: configurations that do not fit are refused") {
  const auto refusal = [](auto change) {
    VitConfig config = small_model();
    change(config);
    ConfigFaults faults("model.");
    check(config, faults);
    return faults.all().empty() ? std::string() : faults.all()[0].keys[0] + ": " + faults.all()[0].expected;
  };
  CHECK(refusal([](VitConfig&) {}).empty());
  CHECK(refusal([](VitConfig& c) { c.heads = 3; }) ==
        "model.heads: a divisor of model.hidden (16), for heads of at most 256");
  CHECK(refusal([](VitConfig& c) { c.patch_size = 5; }) ==
        "model.patch_size: a divisor of model.image_size (16)");
  CHECK(refusal([](VitConfig& c) { c.layers = 0; }) == "model.layers: 1 or more");
  CHECK(refusal([](VitConfig& c) { c.moh.top_k = 4; }) ==
        "model.moh.top_k: at most 3, the heads that are not shared");
}
