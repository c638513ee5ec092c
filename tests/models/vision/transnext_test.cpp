#include "models/vision/transnext.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/find_preset.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/vision/image_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

TransNextConfig small_model(bool routed = true) {
  TransNextConfig c{.classes = 5,
                    .dims = {8, 16, 24},
                    .heads = {2, 2, 3},
                    .depths = {1, 2, 1},
                    .mlp_ratios = {4, 4, 2},
                    .pool_ratios = {4, 2, 1},
                    .pretrain_size = 32};
  if (!routed) return c;
  c.moh.router = routers::kLearned;
  c.moh.num_shared = PerLayer({2, 1, 1});
  c.moh.top_k = PerLayer({0, 1, 1});
  return c;
}

std::vector<Tensor> step_of(const TransNextConfig& config, std::uint64_t draws = 0) {
  return image_step<TransNext>(config, 32, 32, draws);
}

Tensor logits_of(const TransNext& model, const Variable& images, const ForwardContext& context = {}) {
  return model.forward(images, context).logits.value();
}

}  // namespace

TEST_CASE("transnext: presets have the published parameter counts, to the last unit") {
  struct Published {
    const char* name;
    std::int64_t parameters;
    double activated;  // percent
  };
  // Blocks of width D lose with a head of 24 rows of q, k and v with their biases, columns of the
  // output projection, and what a head has beside them, in a window or in full attention.
  const auto lost = [](std::int64_t blocks, std::int64_t heads, std::int64_t width, bool window) {
    const std::int64_t d = 24, beside = 1 + d + 513 + (window ? 9 * d + 18 : 0);
    return blocks * heads * (4 * width * d + 3 * d + beside);
  };
  const std::vector<Published> published = {
      {"transnext_tiny", 28258960, 100},
      {"transnext_small", 49741564, 100},
      {"transnext_base", 89721496, 100},
      {"moh_vit_tiny_75", 28351552, 75.20},
      {"moh_vit_small_80", 49910548, 79.95},
      {"moh_vit_small_75", 49910548, 75.29},
      {"moh_vit_base_75", 90020632, 75.00},
      {"moh_vit_base_50", 90023512, 50.00},
      {"transnext_tiny_moe2", 44570560, 100},
      {"moh_vit_tiny_75_moe2", 44663152, 75.20},
      // Not published: its lists are a proposal, its count that of transnext_small and the routers.
      {"moh_vit_small_75_no_shared", 49741564 + 5 * (3 * 72 + 6 * 144 + 24 * 576) + 22 * 12 * 288, 75.29},
      // Baselines.
      {"dense_vit_tiny_75", 28258960 - lost(15, 3, 288, true) - lost(2, 8, 576, false), 100},
      {"dense_vit_small_80", 49741564 - lost(22, 3, 288, true) - lost(5, 4, 576, false), 100},
      {"dense_vit_small_75", 49741564 - lost(22, 3, 288, true) - lost(5, 8, 576, false), 100},
      {"dense_vit_base_75", 89721496 - lost(23, 4, 384, true) - lost(5, 11, 768, false), 100},
      {"dense_vit_base_50",
       89721496 - lost(5, 2, 192, true) - lost(23, 8, 384, true) - lost(5, 20, 768, false), 100}};
  for (const Published& model : published) {
    INFO(model.name);
    const TransNextPreset* preset = find_preset(transnext_presets(), model.name);
    REQUIRE(preset != nullptr);
    const DryRunScope no_memory;
    const TransNext made(preset->config, DType::kFloat32);
    CHECK(count_parameters(made) == model.parameters);
    CHECK(std::abs(100 * activated_heads(made) - model.activated) < 0.005);
  }
  CHECK(transnext_presets().size() == published.size());
  CHECK(find_preset(transnext_presets(), "transnext_huge") == nullptr);
}

TEST_CASE("transnext: parameters are named as in the released code") {
  const TransNext model(small_model(), DType::kFloat32);
  std::set<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.insert(p.name);
  for (const char* name : {"patch_embed1.proj.weight",
                           "patch_embed3.norm.bias",
                           "block1.0.attn.temperature",
                           "block1.0.attn.query_embedding",
                           "block1.0.attn.relative_pos_bias_local",
                           "block1.0.attn.learnable_tokens",
                           "block1.0.attn.learnable_bias",
                           "block1.0.attn.q.weight",
                           "block1.0.attn.kv.bias",
                           "block1.0.attn.sr.weight",
                           "block1.0.attn.norm.weight",
                           "block1.0.attn.cpb_fc1.weight",
                           "block1.0.attn.wg_1.weight",
                           "block2.1.attn.wg.weight",
                           "block2.1.attn.wg_0.weight",
                           "block2.1.mlp.dwconv.dwconv.weight",
                           "block3.0.attn.qkv.weight",
                           "block3.0.mlp.fc2.bias",
                           "norm2.weight",
                           "head.bias"})
    CHECK(names.contains(name));
  CHECK_FALSE(names.contains("block1.0.attn.wg.weight"));  // all of its heads are shared
  CHECK_FALSE(names.contains("block3.0.attn.q.weight"));
}

TEST_CASE("transnext: dense and MoH models begin with the same numbers") {
  TransNext routed(small_model(), DType::kFloat32), dense(small_model(false), DType::kFloat32);
  routed.initialise(3);
  dense.initialise(3);
  const Tensor with_all = logits_of(routed, some_images(32, 32), {.all_heads = true});
  const Tensor expected = logits_of(dense, some_images(32, 32));
  CHECK(std::memcmp(with_all.raw(), expected.raw(), expected.bytes()) == 0);
  for (const NamedParameter& p : dense.parameters()) {
    if (!p.name.ends_with(".temperature")) continue;
    CHECK(std::log1p(std::exp(p.variable.value().data<float>()[0])) == Approx(1 / 0.24));
  }
}

TEST_CASE("transnext: recomputing the blocks, and another number of threads, change no bit of a step") {
  for (const bool routed : {true, false}) {
    TransNextConfig config = small_model(routed);
    config.drop_path = 0.5;
    const std::vector<Tensor> expected = step_of(config);
    const int threads = num_threads();
    set_num_threads(threads == 1 ? 2 : 1);
    CHECK(same_bits(step_of(config), expected));
    set_num_threads(threads);
    for (const RecomputeLevel level : kRecomputeLevels) {
      config.recompute = level;
      CHECK(same_bits(step_of(config), expected));
    }
    CHECK_FALSE(same_bits(step_of(config, 1), expected));  // other draws of drop_path
  }
}

TEST_CASE("transnext: a mixture of feed-forward networks") {
  TransNextConfig config = small_model();
  config.experts = 3;
  const std::vector<Tensor> expected = step_of(config);
  config.recompute = RecomputeLevel::kLayer;
  CHECK(same_bits(step_of(config), expected));

  // With equal experts it is their network times the probability of the one that is selected.
  constexpr std::int64_t kWidth = 8, kTokens = 12;
  const ExpertGlu mixture(2, kWidth, 6, RecomputeLevel::kNone, DType::kFloat32);
  const ConvGlu single(kWidth, 6, RecomputeLevel::kNone, DType::kFloat32);
  for (const NamedParameter& p : mixture.parameters()) {
    const std::string name = p.name.starts_with("experts.") ? p.name.substr(10) : p.name;
    fill_normal(p.variable.value(), initialisation_key(1, name), 0, 0.5);
  }
  for (const NamedParameter& p : single.parameters())
    fill_normal(p.variable.value(), initialisation_key(1, p.name), 0, 0.5);
  const Tensor x = empty({2, kTokens / 2, kWidth}, DType::kFloat32);
  fill_normal(x, {3, 4}, 0, 1);
  const ExpertGlu::Output mixed = mixture(Variable(x), {2, 3});
  const Tensor alone = single(Variable(x), {2, 3}).value(), gate = mixture.parameters()[0].variable.value();
  for (std::int64_t t = 0; t < kTokens; ++t) {
    double difference = 0;
    for (std::int64_t i = 0; i < kWidth; ++i)
      difference +=
          double{x.data<float>()[t * kWidth + i]} * (gate.data<float>()[i] - gate.data<float>()[kWidth + i]);
    const double largest = 1 / (1 + std::exp(-std::abs(difference)));
    for (std::int64_t i = t * kWidth; i < (t + 1) * kWidth; ++i)
      CHECK(mixed.y.value().data<float>()[i] == Approx(largest * alone.data<float>()[i]).margin(1e-5));
  }
  CHECK(mixed.balance.value().item() > 0.9);
}

TEST_CASE("transnext: one key and value for all heads is as many that are equal") {
  TransNextConfig config = small_model(false);
  TransNext many(config, DType::kFloat32);
  many.initialise(3);
  config.single_kv_head = true;
  TransNext single(config, DType::kFloat32);
  single.initialise(3);
  const std::vector<NamedParameter> from = single.parameters(), to = many.parameters();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Tensor source = from[i].variable.value(), target = to[i].variable.value();
    const std::int64_t rows = target.rank() > 0 ? target.dim(0) : 1, width = target.numel() / rows;
    const bool qkv = to[i].name.find(".qkv.") != std::string::npos;
    if (!qkv && to[i].name.find(".kv.") == std::string::npos) {
      target.copy_from(source);
      continue;
    }
    // Blocks of d rows: queries as they are, then the key of all heads, then the value of all heads.
    const std::int64_t d = to[i].name.starts_with("block1.") ? 4 : 8, heads = rows / d / (qkv ? 3 : 2);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t kind = row / d / heads + (qkv ? 0 : 1);
      const std::int64_t first = kind == 0 ? row : (qkv ? heads * d : 0) + (kind - 1) * d + row % d;
      std::copy_n(source.data<float>() + first * width, width, target.data<float>() + row * width);
    }
  }
  const Tensor a = logits_of(single, some_images(32, 32)), b = logits_of(many, some_images(32, 32));
  for (std::int64_t i = 0; i < a.numel(); ++i)
    CHECK(a.data<float>()[i] == Approx(b.data<float>()[i]).margin(1e-6));
}

TEST_CASE("transnext: the baseline MoA trains, also with recomputed blocks") {
  TransNextConfig config = small_model(false);
  config.single_kv_head = true;
  config.moh = {.router = routers::kLearned,
                .top_k = PerLayer({2, 1, 2}),
                .gate_scaling = GateScaling::kPaper,
                .balance_loss = BalanceLoss::kShares,
                .router_init = RouterInit::kZeros,
                .z_loss_weight = 0.001};
  TransNext model(config, DType::kFloat32);
  model.initialise(3);
  for (const NamedParameter& p : router_parameters(model))
    for (const float value : p.variable.value().span<float>()) CHECK(value == 0.0F);
  const ImageOutput output = model.forward(some_images(32, 32));
  REQUIRE(output.routing.size() == 4);
  // For zeros: the squared logarithm of the number of heads.
  CHECK(output.routing[0].z_loss.value().item() == Approx(std::pow(std::log(2), 2)));
  CHECK(output.routing[3].z_loss.value().item() == Approx(std::pow(std::log(3), 2)));
  CHECK(output.routing[3].balance.value().item() == Approx(1));
  const std::vector<Tensor> expected = step_of(config);
  config.recompute = RecomputeLevel::kLayer;
  CHECK(same_bits(step_of(config), expected));
}

TEST_CASE("transnext: sparse attention in some of the stages") {
  TransNextConfig config = small_model(false);
  const std::vector<Tensor> dense = step_of(config);
  config.kept_keys = {100, 100, 100};
  CHECK(same_bits(step_of(config), dense));
  config.kept_keys = {100, 75, 75};
  const std::vector<Tensor> sparse = step_of(config);
  CHECK_FALSE(same_bits(sparse, dense));
  for (const Tensor& each : sparse) CHECK(each.all_finite());
  config.recompute = RecomputeLevel::kLayer;
  CHECK(same_bits(step_of(config), sparse));
}

TEST_CASE("transnext: images of any size, also with a fixed number of pooled tokens") {
  TransNextConfig config = small_model();
  for (const std::int64_t fixed : {0, 2}) {
    config.fixed_pool_size = fixed;
    TransNext model(config, DType::kFloat32);
    model.initialise(3);
    for (const auto& [height, width] : {std::pair{32, 32}, {41, 67}, {96, 16}, {9, 13}, {1, 1}})
      CHECK(logits_of(model, some_images(height, width)).all_finite());
  }
}

TEST_CASE("transnext: permuting the images permutes the logits: routing couples none") {
  TransNext model(small_model(), DType::kFloat32);
  model.initialise(4);
  const Variable images = some_images(40, 32);
  const Tensor swapped = empty_like(images.value());
  swapped.select(0).copy_from(images.value().select(1));
  swapped.select(1).copy_from(images.value().select(0));
  const Tensor a = logits_of(model, images), b = logits_of(model, Variable(swapped));
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(a.data<float>()[i] == Approx(b.data<float>()[5 + i]).margin(1e-5));
}

TEST_CASE("transnext: bfloat16 gives about the same logits") {
  TransNext exact(small_model(false), DType::kFloat32), rounded(small_model(false), DType::kBFloat16);
  exact.initialise(3);
  for (std::size_t i = 0; i < exact.parameters().size(); ++i)
    rounded.parameters()[i].variable.value().copy_from(exact.parameters()[i].variable.value());
  const Tensor a = logits_of(exact, some_images(32, 32));
  const Tensor b = logits_of(rounded, some_images(32, 32, DType::kBFloat16)).to(DType::kFloat32);
  for (std::int64_t i = 0; i < a.numel(); ++i)
    CHECK(std::abs(a.data<float>()[i] - b.data<float>()[i]) < 0.01);
}

TEST_CASE("transnext: a dry run counts a step") {
  const DryRunScope no_memory;
  TransNext model(small_model(), DType::kFloat32);
  model.initialise(1);
  cross_entropy(model.forward(some_images(32, 32)).logits, zeros({2}, DType::kInt64)).backward();
  CHECK(no_memory.memory()->usage(kCpu).at_peak[static_cast<int>(MemoryPurpose::kActivation)] > 0);
}

TEST_CASE("transnext: configurations and images that do not fit are refused") {
  const auto refusal = [](auto change) {
    TransNextConfig config = small_model();
    change(config);
    ConfigFaults faults("model.");
    check(config, faults);
    return faults.all().empty() ? std::string() : faults.all()[0].keys[0] + ": " + faults.all()[0].expected;
  };
  CHECK(refusal([](TransNextConfig&) {}).empty());
  CHECK(refusal([](TransNextConfig& c) {
          c.heads = {2, 2};
        }) == "model.heads: a value per stage (model.dims has 3)");
  CHECK(refusal([](TransNextConfig& c) {
          c.heads = {2, 3, 3};
        }) == "model.heads: a divisor of model.dims (16), for heads of at most 256");
  CHECK(refusal([](TransNextConfig& c) { c.depths[1] = 0; }) == "model.depths: numbers of 1 or more");
  CHECK(refusal([](TransNextConfig& c) { c.kept_keys = {75}; }) ==
        "model.kept_keys: none, or a value per stage (3)");
  CHECK(refusal([](TransNextConfig& c) {
          c.kept_keys = {75, 0, 75};
        }) == "model.kept_keys: 1 to 100 percent");
  CHECK(refusal([](TransNextConfig& c) { c.window = 4; }) == "model.window: an odd number from 1 to 15");
  CHECK(refusal([](TransNextConfig& c) { c.drop_path = 1; }) == "model.drop_path: 0 or more, below 1");
  CHECK(refusal([](TransNextConfig& c) { c.moh.router = routers::kQueryNorm; }) ==
        "model.moh.router: one of none, learned, static");
  CHECK(refusal([](TransNextConfig& c) {
          c.moh.top_k = PerLayer({0, 1, 3});
        }) == "model.moh.top_k: at most 2, the heads that are not shared");
  CHECK(refusal([](TransNextConfig& c) {
          c.moh.top_k = PerLayer({0, 1});
        }) == "model.moh.top_k: one value, or one per stage (3) or block (4)");
  CHECK(refusal([](TransNextConfig& c) { c.dims.clear(); }) == "model.dims: 1 to 8 stages");
  const TransNext model(small_model(), DType::kFloat32);
  CHECK_THROWS_WITH(model.forward(Variable(zeros({2, 3, 32, 32}, DType::kFloat32))),
                    "transnext: images: expected [B, H, W, 3], found [2, 3, 32, 32]");
}
