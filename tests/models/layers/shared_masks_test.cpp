// Shared heads that are learned in training: from masks in a layer to the frozen lists.

#include "models/layers/shared_masks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/layers/moh_attention.h"
#include "models/layers/moh_config.h"
#include "models/vision/vit.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"
#include "tests/models/parameter_gradients.h"
#include "tests/models/vision/image_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kHeads = 4, kWidth = 8;

MohConfig learned(double until = 0.5) {
  return {.router = routers::kLearned, .num_shared = 2, .top_k_ratio = 0.5, .learn_shared_until = until};
}

std::unique_ptr<MohAttention> make_layer(const MohConfig& moh, DType dtype = DType::kFloat64) {
  auto layer = std::make_unique<MohAttention>(
      MohAttentionOptions{
          .width = kWidth, .heads = kHeads, .head_dim = 2, .routing = routing_of(moh, kHeads, 0)},
      dtype);
  for (const NamedParameter& p : layer->parameters()) {
    const bool of_mask = p.name.starts_with("shared_mask.");
    fill_normal(p.variable.value(), initialisation_key(5, p.name), 0.0, of_mask ? 0.03 : 0.6);
    if (p.name == "shared_mask.shared") p.variable.value().fill(0.0);
  }
  return layer;
}

Variable parameter(const Module& module, const std::string& name) {
  for (const NamedParameter& p : module.parameters()) {
    if (p.name == name) return p.variable;
  }
  FAIL("no parameter " << name);
  return {};
}

double sum_of(const Tensor& x) {
  const auto numbers = x.span<double>();
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

Variable some_input() {
  const Tensor x = empty({2, 5, kWidth}, DType::kFloat64);
  fill_normal(x, {3, 0}, 0.0, 1.0);
  return Variable(x, true);
}

VitConfig small_vit() {
  return {.image_size = 16,
          .patch_size = 4,
          .classes = 5,
          .layers = 2,
          .hidden = 16,
          .heads = kHeads,
          .moh = learned()};
}

}  // namespace

TEST_CASE("shared masks: nearly all heads are shared at first, then as many as are wanted") {
  SharedMasks masks(12, 4, 0.5, DType::kFloat32);
  for (const NamedParameter& p : masks.parameters()) p.variable.value().fill(0.0);
  for (const auto& [progress, expected] : {std::pair{0.0, 11.88}, {0.125, 7.94}, {0.25, 4.0}, {0.49, 4.0}}) {
    masks.set_progress(progress);
    REQUIRE(masks.learning());
    double on = 0;
    constexpr int kTimes = 500;
    for (std::uint64_t step = 0; step < kTimes; ++step) {
      Generator generator(1, step);
      const Tensor z = masks.draw(generator).value();
      for (const float of_head : z.span<float>()) on += of_head > 0;
    }
    CHECK(on / kTimes == Approx(expected).margin(0.25));
  }
}

TEST_CASE("shared masks: when their time is over the heads of the largest scores are shared for good") {
  SharedMasks masks(5, 2, 0.5, DType::kFloat32);
  const Variable scores = parameter(masks, "shared_mask.score"),
                 shared = parameter(masks, "shared_mask.shared");
  shared.value().fill(0.0);
  scores.value().copy_from(tensor_of<float>({5}, {0.1F, -1, 0.3F, 0.2F, 0}));
  CHECK(masks.heads() == std::vector<std::int64_t>{2, 3});
  CHECK_FALSE(masks.set_progress(0.4));
  CHECK(masks.set_progress(0.5));
  CHECK_FALSE(masks.learning());
  scores.value().copy_from(tensor_of<float>({5}, {9, 8, 7, 6, 5}));  // an optimiser with momentum goes on
  CHECK_FALSE(masks.set_progress(0.6));
  CHECK(masks.heads() == std::vector<std::int64_t>{2, 3});
  // All of it is in the parameters.
  SharedMasks other(5, 2, 0.5, DType::kFloat32);
  for (const char* name : {"shared_mask.score", "shared_mask.shared"})
    parameter(other, name).value().copy_from(parameter(masks, name).value());
  CHECK_FALSE(other.learning());
  CHECK(other.heads() == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("shared masks: gradients of a layer that learns, with respect to every parameter") {
  // Draws for which no mask is at a kink.
  for (const std::uint64_t draw : {3, 11}) {
    const auto layer = make_layer(learned());
    layer->router()->set_progress(0.3);
    std::vector<NamedParameter> all = layer->parameters();
    const Variable x = some_input();
    all.push_back({"x", x});
    const Tensor weights = empty({1, x.numel()}, DType::kFloat64);
    fill_normal(weights, {9, 0}, 0.0, 1.0);
    std::erase_if(all, [](const NamedParameter& p) { return p.name == "shared_mask.shared"; });
    check_parameter_gradients(all, [&] {
      Generator generator(2, draw);
      const LayerOutput output = layer->forward(x, {.training = true, .generator = &generator});
      return reshape(linear(reshape(output.y, {1, -1}), Variable(weights)), {});
    });
  }
}

TEST_CASE(
    "shared masks: where K is annealed, it is a share of the heads that the masks leave to the router") {
  MohConfig moh = learned();
  moh.top_k_anneal_until = 0.4;
  const auto layer = make_layer(moh);
  const Variable x = some_input();
  for (const double progress : {0.0, 0.19, 0.2, 0.39, 0.4, 0.45, 0.5}) {
    INFO("progress " << progress);
    layer->router()->set_progress(progress);
    SharedMasks masks(kHeads, 2, 0.5, DType::kFloat64);
    for (const char* name : {"shared_mask.score", "shared_mask.shared"})
      parameter(masks, name).value().copy_from(parameter(*layer, name).value());
    masks.set_progress(progress);
    // Two routed heads are wanted, and one of them kept: both at first, one from 0.4 on.
    const double share = progress < 0.4 ? 1.0 : 0.5;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      Generator of_layer(2, draw), of_masks(2, draw);
      const LayerOutput output = layer->forward(x, {.training = true, .generator = &of_layer});
      double routed = 2, candidates = 2;
      if (progress < 0.5) {
        routed = candidates = 0;
        const Tensor z = masks.draw(of_masks).value();
        for (const double of_head : z.span<double>()) {
          routed += 1 - of_head;
          candidates += of_head < 1;
        }
      }
      const double expected = std::min(std::max(std::floor(share * routed + 0.5), 1.0), candidates);
      CHECK(output.routing->top_k.item() == expected);
      CHECK(sum_of(output.routing->load) == Approx(expected));
    }
    CHECK_FALSE(layer->forward(x).routing->top_k.defined());
  }
}

TEST_CASE("shared masks: an evaluation, and training afterwards, are the plain layer with these heads") {
  const auto learning = make_layer(learned());
  const std::vector<std::int64_t> shared = learning->router()->options().shared_heads;
  REQUIRE(shared.size() == 2);
  MohConfig plain_config = learned(0);
  plain_config.shared_heads.every = shared;
  const auto plain = make_layer(plain_config);
  // The rows of the heads that are of a kind.
  const HeadKinds kinds = head_kinds(plain->router()->options());
  for (const auto& [name, heads] : {std::pair{"wg.weight", kinds.routed}, {"wg_1.weight", kinds.shared}}) {
    for (std::size_t i = 0; i < heads.size(); ++i)
      parameter(*plain, name)
          .value()
          .select(static_cast<std::int64_t>(i))
          .copy_from(parameter(*learning, name).value().select(heads[i]));
  }
  const Variable x = some_input();
  const Tensor expected = plain->forward(x).y.value();
  CHECK(same_bits({learning->forward(x).y.value()}, {expected}));
  Generator generator(1, 1);
  const ForwardContext training{.training = true, .generator = &generator};
  CHECK_FALSE(same_bits({learning->forward(x, training).y.value()}, {expected}));
  learning->router()->set_progress(0.5);
  const LayerOutput after = learning->forward(x, training);
  CHECK(same_bits({after.y.value()}, {expected}));
  CHECK(after.routing->computed_heads == 3);
  CHECK(after.routing->load.numel() == 2);
  CHECK(plain->forward(x).routing->balance.value().item() == after.routing->balance.value().item());
}

TEST_CASE("shared masks: a model's step has the same bits when its blocks are computed again") {
  const auto step = [](RecomputeLevel recompute, double progress) {
    VitConfig config = small_vit();
    config.recompute = recompute;
    Vit model(config, DType::kFloat32);
    model.initialise(3);
    model.set_progress(progress);
    Generator generator(1, 7);
    const ImageOutput output =
        model.forward(some_images(16, 16), {.training = true, .generator = &generator});
    Variable loss = cross_entropy(output.logits, tensor_of<std::int64_t>({2}, {1, 4}));
    for (const LayerRouting& layer : output.routing) loss = add(loss, layer.balance);
    loss.backward();
    std::vector<Tensor> results = {loss.value()};
    for (const NamedParameter& p : model.parameters()) {
      if (p.variable.grad().defined()) results.push_back(p.variable.grad());
    }
    return results;
  };
  for (const double progress : {0.0, 0.2, 0.7})
    CHECK(same_bits(step(RecomputeLevel::kLayer, progress), step(RecomputeLevel::kNone, progress)));
  CHECK_FALSE(same_bits(step(RecomputeLevel::kNone, 0.0), step(RecomputeLevel::kNone, 0.2)));
}

TEST_CASE("shared masks: what a model says of its routing follows them") {
  Vit model(small_vit(), DType::kFloat32);
  model.initialise(3);
  CHECK(model.routing()[1].shared_heads == std::vector<std::int64_t>{0, 1});
  parameter(model, "blocks.1.attn.shared_mask.score")
      .value()
      .copy_from(tensor_of<float>({kHeads}, {0, 1, 0, 2}));
  CHECK(model.routing()[0].shared_heads == std::vector<std::int64_t>{0, 1});
  CHECK(model.routing()[1].shared_heads == std::vector<std::int64_t>{1, 3});
  CHECK(activated_heads(model) == Approx(0.75));
  for (const NamedParameter& p : model.parameters()) {
    if (p.name.find("shared_mask") != std::string::npos) CHECK_FALSE(model.decays(p));
  }
}

TEST_CASE("shared masks: configurations that contradict them are refused") {
  const auto refusal = [](auto change) {
    VitConfig config = small_vit();
    change(config.moh);
    ConfigFaults faults("");
    check(config, faults);
    return faults.all().empty() ? std::string() : faults.all()[0].keys[0] + ": " + faults.all()[0].expected;
  };
  CHECK(refusal([](MohConfig&) {}).empty());
  CHECK(refusal([](MohConfig& moh) { moh.learn_shared_until = 1.5; }) ==
        "moh.learn_shared_until: 0, or a share up to 1");
  CHECK(refusal([](MohConfig& moh) { moh.gate_scaling = GateScaling::kPaper; }) ==
        "moh.learn_shared_until: 0, or a learned router with the gates of `code`");
  CHECK(refusal([](MohConfig& moh) {
          moh.shared_heads.every = {0, 1};
        }) == "moh.shared_heads: first, as these heads are learned in training");
  CHECK(refusal([](MohConfig& moh) { moh.balance_bias = 0.001; }) ==
        "moh.balance_bias: 0 with moh.learn_shared_until");
  CHECK(refusal([](MohConfig& moh) { moh.balance_loss = BalanceLoss::kCv; }) ==
        "moh.balance_loss: code, paper or shares with moh.learn_shared_until");
  CHECK(refusal([](MohConfig& moh) { moh.num_shared = 0; }) ==
        "moh.num_shared: 1 to 3 heads of which to learn which");
  CHECK(refusal([](MohConfig& moh) { moh.top_k = 1; }) == "moh.top_k: one of moh.top_k and its ratio");
  CHECK_THROWS_AS(SharedMasks(4, 4, 0.5, DType::kFloat32), ValueError);
}

TEST_CASE("moh: top_k as a ratio of the routed heads") {
  const MohConfig moh{.router = routers::kLearned, .num_shared = 4, .top_k_ratio = 0.25};
  CHECK(routing_of(moh, 12, 0).router.top_k == 2);
  CHECK(routing_of(moh, 14, 0).router.top_k == 3);  // 2.5 is rounded up
  CHECK(routing_of(moh, 5, 0).router.top_k == 1);
  CHECK(routing_of(moh, 4, 0).router.top_k == 0);
}
