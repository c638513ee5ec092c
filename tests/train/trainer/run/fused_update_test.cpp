#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/support/image_runs.h"
#include "tests/support/same_bits.h"
#include "tests/train/trainer/run/fused_steps.h"
#include "train/trainer/optim/fused_update.h"

using namespace moh;
using namespace moh::test;

namespace {

/// `share`: of the memory of all gradients, the most that one takes when the update is fused.
void check_same(const RunConfig& config, double share = 1) {
  const Steps expected = four_steps(config, false), found = four_steps(config, true);
  CHECK(same_bits(found.state, expected.state));
  CHECK(found.numbers == expected.numbers);
  CHECK(static_cast<double>(found.peak_gradients) < share * static_cast<double>(expected.peak_gradients));
}

Variable leaf(double value) {
  return Variable(full({2}, value, DType::kFloat32), true);
}

const AdamWOptions no_clipping{.clip_grad_norm = 0};

}  // namespace

TEST_CASE("fused update: the same bits as an update after the backward pass, in less memory") {
  check_same(fusible(small_language_run()), 0.3);
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) check_same(routed(router), 0.3);
}

TEST_CASE("fused update: weights that are used twice, recomputed layers, bfloat16, an average") {
  RunConfig config = routed(routers::kLearned);
  model_of(config).tied_embeddings = true;
  model_of(config).recompute = RecomputeLevel::kLayer;
  config.ema.decay = 0.9;
  check_same(config, 0.7);
  config.precision = Precision::kBFloat16;
  check_same(config, 0.7);
  config.optim.adamw.gradients = Precision::kBFloat16;
  check_same(config);
}

TEST_CASE("fused update: weights that the backward pass reads once more") {
  for (const RecomputeLevel level :
       {RecomputeLevel::kNorms, RecomputeLevel::kMlp, RecomputeLevel::kAttention}) {
    RunConfig config = routed(routers::kLearned);
    model_of(config).recompute = level;
    check_same(config, 0.3);
  }
}

TEST_CASE("fused update: frozen parameters, and rates of their own") {
  RunConfig config = routed(routers::kLearned);
  config.optim.adamw.groups = {{.match = {"*norm*"}, .learning_rate_scale = 0.5},
                               {.match = {"*.q_proj*"}, .freeze = true}};
  check_same(config, 0.3);
}

TEST_CASE("fused update: by Lion, by Muon with AdamW for what it leaves, by Adafactor") {
  for (const UpdateRule rule : {UpdateRule::kLion, UpdateRule::kMuon, UpdateRule::kAdafactor}) {
    RunConfig config = routed(routers::kLearned);
    config.optim.adamw.rule = rule;
    check_same(config, 0.7);
  }
}

TEST_CASE("fused update: classifiers of images") {
  for (const ImageArchitecture architecture : {ImageArchitecture::kVit, ImageArchitecture::kTransNext})
    check_same(fusible(small_image_run(architecture)), 0.6);
}

TEST_CASE("fused update: a parameter that the backward pass does not reach is updated with zeros") {
  std::vector<Tensor> values[2];
  for (const bool is_fused : {false, true}) {
    Variable a = leaf(1), unreached = leaf(2);
    AdamW optimizer({{"a", a}, {"unreached", unreached}}, {.clip_grad_norm = 0},
                    [](const NamedParameter&) { return true; });
    std::optional<FusedUpdate> fused;
    if (is_fused) fused.emplace(optimizer).hook_parameters();
    for (int i = 0; i < 2; ++i) {
      optimizer.zero_grad();
      optimizer.set_learning_rate(0.1);
      const Tensor losses = zeros({1}, DType::kFloat64);
      if (fused) fused->begin(losses);
      // In the first step only has it a gradient, and moments from then on.
      const Variable y = i == 0 ? add(a, unreached) : add(a, a);
      y.backward(full({2}, 1.0, DType::kFloat32));
      const Tensor outcome = fused ? fused->finish() : optimizer.update(losses);
      CHECK(outcome.span<double>()[1] == 1.0);
      optimizer.count_update();
    }
    values[is_fused ? 1 : 0] = {a.value(), unreached.value()};
  }
  CHECK(same_bits(values[0], values[1]));
  CHECK(values[0][1].span<float>()[0] != 2.0F);
}

TEST_CASE("fused update: a loss that is not finite, or above the limit, changes nothing") {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity(), 11.0}) {
    Variable a = leaf(1);
    AdamW optimizer({{"a", a}}, no_clipping);
    FusedUpdate fused(optimizer);
    fused.hook_parameters();
    optimizer.set_learning_rate(0.1);
    optimizer.set_limits({.loss = 10});
    fused.begin(full({1}, loss, DType::kFloat64));
    scale(a, 2).backward(full({2}, 1.0, DType::kFloat32));
    const Tensor outcome = fused.finish();
    CHECK(outcome.span<double>()[0] == Approx(std::sqrt(8.0)));
    CHECK(outcome.span<double>()[1] == 0.0);
    CHECK(a.value().span<float>()[0] == 1.0F);
    for (const NamedTensor& moment : optimizer.state()) CHECK(moment.tensor.span<float>()[0] == 0.0F);
  }
}

TEST_CASE("fused update: after a gradient that is not finite no parameter is updated") {
  Variable first = leaf(1), broken = leaf(1), last = leaf(1);
  AdamW optimizer({{"last", last}, {"broken", broken}, {"first", first}}, no_clipping);
  FusedUpdate fused(optimizer);
  fused.hook_parameters();
  optimizer.set_learning_rate(0.1);
  fused.begin(zeros({1}, DType::kFloat64));
  // The backward pass goes from the op made last to the first.
  const Variable a = scale(last, 1), b = scale(scale(broken, 3e38), 3e38), c = scale(first, 1);
  add(add(a, b), c).backward(full({2}, 1.0, DType::kFloat32));
  const Tensor outcome = fused.finish();
  CHECK_FALSE(std::isfinite(outcome.span<double>()[0]));
  CHECK(outcome.span<double>()[1] == 0.0);
  CHECK(first.value().span<float>()[0] != 1.0F);
  CHECK(broken.value().span<float>()[0] == 1.0F);
  CHECK(last.value().span<float>()[0] == 1.0F);
  for (const Variable& each : {first, broken, last}) CHECK_FALSE(each.grad().defined());
}

TEST_CASE("fused update: its hooks go with it") {
  Variable a = leaf(1);
  AdamW optimizer({{"a", a}}, no_clipping);
  { FusedUpdate(optimizer).hook_parameters(); }
  scale(a, 2).backward(full({2}, 1.0, DType::kFloat32));
  CHECK(a.grad().span<float>()[0] == 2.0F);
}

TEST_CASE("fused update: a second backward pass in a step is a mistake") {
  Variable a = leaf(1);
  AdamW optimizer({{"a", a}}, no_clipping);
  FusedUpdate fused(optimizer);
  fused.hook_parameters();
  fused.begin(zeros({1}, DType::kFloat64));
  const Tensor one = full({2}, 1.0, DType::kFloat32);
  scale(a, 2).backward(one);
  CHECK_THROWS_AS(scale(a, 2).backward(one), InternalError);
  AdamW clipping({{"a", a}}, {.clip_grad_norm = 1});
  CHECK_THROWS_AS(FusedUpdate(clipping), InternalError);
}
