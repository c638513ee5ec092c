// Measurements before a run, and starts of routers, on a model of no family that the program knows.

#include <algorithm>
#include <catch2/catch.hpp>

#include "ops/loss/cross_entropy.h"
#include "tests/train/heads/attention_model.h"
#include "train/heads/init/divergence.h"
#include "train/heads/init/router_start.h"
#include "train/heads/init/shared_heads.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kBatch = 3, kTokens = 7;

/// Random vectors, each of them with a class.
class VectorCalibration final : public Calibration {
 public:
  std::int64_t size() const override { return 4; }
  std::string_view input() const override { return "vector"; }
  BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context) const override {
    const Tensor targets = empty({kBatch, kTokens}, DType::kInt64);
    for (std::int64_t i = 0; i < targets.numel(); ++i)
      targets.data<std::int64_t>()[i] = (index + 5 * i) % AttentionModel::kWidth;
    return {cross_entropy(logits(model, index, context), targets), targets.numel()};
  }
  Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const override {
    const Tensor x = normal_inputs(kBatch, kTokens, static_cast<std::uint64_t>(index));
    return dynamic_cast<const AttentionModel&>(model).forward(x, context);
  }
};

}  // namespace

TEST_CASE("init: any model's routers are calibrated, layer by layer") {
  const AttentionModel model({learned_routing(2, 2), dense_routing(), learned_routing(1, 3)});
  const std::vector<NamedParameter> routers = router_parameters(model);
  REQUIRE(routers.size() == 5);  // one shared head has no gate among shared heads
  CHECK(routers[0].name == "block0.wg.weight");
  CHECK(routers[3].name == "block2.wg.weight");
  const VectorCalibration calibration;
  const auto divergence = [&](const RouterWeights& weights) {
    weights.apply();
    return divergence_from_dense(model, calibration);
  };
  const double calibrated = divergence(calibrated_start(model, routers, calibration));
  for (const NamedParameter& p : routers) {
    const bool is_zero =
        std::ranges::all_of(p.variable.value().span<float>(), [](float w) { return w == 0; });
    CHECK(is_zero == !p.name.ends_with(".wg.weight"));
  }
  CHECK(calibrated > 0);
  CHECK(calibrated < divergence(zero_start(routers)));
  CHECK(calibrated < divergence(random_start(routers, model.init_std(), 5)));
}

TEST_CASE("init: any model's heads are measured") {
  const AttentionModel model({dense_routing(), dense_routing()});
  const VectorCalibration calibration;
  const HeadScores norms = mean_output_norms(model, calibration),
                   increases = loss_increases(model, calibration, [](std::int64_t) {});
  for (const HeadScores* scores : {&norms, &increases}) {
    REQUIRE(scores->size() == 2);
    for (const std::vector<double>& layer : *scores) CHECK(layer.size() == AttentionModel::kHeads);
  }
  for (const double norm : norms[1]) CHECK(norm > 0);
}
