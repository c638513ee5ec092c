// Vision models whose heads have a width of their own: fewer heads as wide as before.

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "core/error.h"
#include "models/find_preset.h"
#include "models/vision/transnext.h"
#include "models/vision/vit.h"
#include "tests/models/vision/image_step.h"
#include "tests/support/message_of.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

VitConfig vit_with(std::int64_t heads, std::int64_t head_dim) {
  return {.image_size = 32,
          .patch_size = 8,
          .classes = 5,
          .layers = 2,
          .hidden = 16,
          .heads = heads,
          .head_dim = head_dim};
}

TransNextConfig transnext_with(std::vector<std::int64_t> heads, std::int64_t head_dim) {
  return {.classes = 5,
          .dims = {8, 16},
          .heads = std::move(heads),
          .head_dim = head_dim,
          .depths = {1, 1},
          .mlp_ratios = {4, 4},
          .pool_ratios = {2, 1},
          .pretrain_size = 32};
}

template <class M, class Config>
std::unique_ptr<M> made(const Config& config) {
  auto model = std::make_unique<M>(config, DType::kFloat32);
  model->initialise(3);
  return model;
}

Tensor named(const Module& model, const std::string& name) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.name == name) return p.variable.value();
  }
  FAIL("no parameter " << name);
  return {};
}

/// Copies rows of `from` of a packed projection, and columns of the output projection: the first `heads` of
/// `all` heads, `parts` times queries, keys or values.
void take_heads(const Module& from, const Module& to, const std::string& attention, std::int64_t heads,
                std::int64_t all, std::int64_t d) {
  for (const char* name : {"qkv.weight", "qkv.bias"}) {
    const Tensor source = named(from, attention + name), target = named(to, attention + name);
    for (std::int64_t part = 0; part < 3; ++part)
      target.slice(part * heads * d, (part + 1) * heads * d)
          .copy_from(source.slice(part * all * d, (part * all + heads) * d));
  }
  const Tensor source = named(from, attention + "proj.weight"), target = named(to, attention + "proj.weight");
  for (std::int64_t row = 0; row < source.dim(0); ++row) {
    for (std::int64_t i = 0; i < all * d; ++i) {
      float& value = source.data<float>()[row * all * d + i];
      if (i < heads * d) {
        target.data<float>()[row * heads * d + i] = value;
      } else {
        value = 0;  // the heads that the other model has not
      }
    }
  }
}

}  // namespace

TEST_CASE("head_dim: the width that follows from the heads, given, changes no bit") {
  CHECK(same_bits(image_step<Vit>(vit_with(4, 0), 32, 32), image_step<Vit>(vit_with(4, 4), 32, 32)));
  CHECK(same_bits(image_step<TransNext>(transnext_with({2, 4}, 0), 32, 32),
                  image_step<TransNext>(transnext_with({2, 4}, 4), 32, 32)));
}

TEST_CASE("head_dim: fewer heads compute what more do, of which the others are not read") {
  const auto four = made<Vit>(vit_with(4, 4)), three = made<Vit>(vit_with(3, 4));
  for (const NamedParameter& p : three->parameters()) {
    if (p.name.find(".attn.qkv") == std::string::npos && !p.name.ends_with(".attn.proj.weight"))
      p.variable.value().copy_from(named(*four, p.name));
  }
  for (const char* block : {"blocks.0.attn.", "blocks.1.attn."}) take_heads(*four, *three, block, 3, 4, 4);
  const Variable images = some_images(32, 32);
  const Tensor a = four->forward(images).logits.value(), b = three->forward(images).logits.value();
  for (std::int64_t i = 0; i < a.numel(); ++i)
    CHECK(a.data<float>()[i] == Approx(b.data<float>()[i]).margin(1e-5));
}

TEST_CASE("head_dim: a TransNeXt with fewer heads trains, also with routed ones and a recomputed pass") {
  TransNextConfig config = transnext_with({1, 3}, 4);
  const auto model = made<TransNext>(config);
  CHECK(named(*model, "block1.0.attn.q.weight").shape() == Shape{4, 8});
  CHECK(named(*model, "block1.0.attn.kv.weight").shape() == Shape{8, 8});
  CHECK(named(*model, "block1.0.attn.proj.weight").shape() == Shape{8, 4});
  CHECK(named(*model, "block2.0.attn.qkv.weight").shape() == Shape{36, 16});
  CHECK(named(*model, "block2.0.attn.proj.weight").shape() == Shape{16, 12});
  config.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = PerLayer({0, 1})};
  const std::vector<Tensor> step = image_step<TransNext>(config, 32, 32);
  for (const Tensor& each : step) CHECK(each.all_finite());
  config.recompute = RecomputeLevel::kLayer;
  CHECK(same_bits(image_step<TransNext>(config, 32, 32), step));
}

TEST_CASE("head_dim: dense baselines have the heads that the routed presets have active, as wide") {
  std::size_t baselines = 0;
  for (const TransNextPreset& routed : transnext_presets()) {
    const std::string name(routed.name);
    const TransNextPreset* dense =
        find_preset(transnext_presets(), "dense_" + name.substr(name.find('_') + 1));
    if (!name.starts_with("moh_") || dense == nullptr) continue;
    INFO(name);
    ++baselines;
    const std::vector<HeadRoutingOptions> layers = routing_of(routed.config),
                                          baseline = routing_of(dense->config);
    REQUIRE(layers.size() == baseline.size());
    for (std::size_t i = 0; i < layers.size(); ++i)
      CHECK(computed_heads(layers[i], false) == baseline[i].router.heads);
    for (std::size_t s = 0; s < dense->config.dims.size(); ++s)
      CHECK(dense->config.head_width(s) == routed.config.head_width(s));
    CHECK(dense->config.dims == routed.config.dims);
    CHECK(dense->config.depths == routed.config.depths);
  }
  CHECK(baselines == 5);
}

TEST_CASE("head_dim: heads that fit no width, and widths beyond the kernels, are refused") {
  CHECK(message_of<ValueError>([] { require_valid(vit_with(3, 0)); }) ==
        "vit: heads: expected a divisor of hidden (16), for heads of at most 256, found 3; or set head_dim");
  CHECK(message_of<ValueError>([] { require_valid(vit_with(3, 257)); }) ==
        "vit: head_dim: expected 0 to 256, found 257");
  CHECK(message_of<ValueError>([] {
          require_valid(transnext_with({2, 3}, 0));
        }) ==
        "transnext: heads: expected a divisor of dims (16), for heads of at most 256, found 3 (stage 1); or "
        "set "
        "head_dim");
  CHECK(message_of<ValueError>([] {
          require_valid(transnext_with({2, 3}, -1));
        }) == "transnext: head_dim: expected 0 to 256, found -1");
}
