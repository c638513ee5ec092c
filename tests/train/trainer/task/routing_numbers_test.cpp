#include "train/trainer/task/routing_numbers.h"
#include "models/layers/head_routing.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace moh;

namespace {

/// A layer of 8 heads, of which a token computes some; a load-balance loss of 0 is none.
LayerRouting layer(double balance, std::int64_t computed, const std::vector<double>& load) {
  LayerRouting routing;
  if (balance != 0) routing.balance = Variable(full({}, balance, DType::kFloat64), true);
  if (!load.empty())
    routing.load = tensor_of<double>({static_cast<std::int64_t>(load.size())}, load).to(DType::kFloat32);
  routing.computed_heads = computed;
  routing.heads = 8;
  return routing;
}

LayerRouting counted(LayerRouting routing, double heads_each, double top_k) {
  routing.heads_each = full({}, heads_each, DType::kFloat64);
  if (top_k > 0) routing.top_k = full({}, top_k, DType::kFloat64);
  return routing;
}

/// The statistics of a step of these micro-batches.
StepStatistics statistics_of(const std::vector<std::vector<LayerRouting>>& micro_batches) {
  NumberLayout layout;
  std::vector<double> packed;
  for (const std::vector<LayerRouting>& layers : micro_batches) {
    const std::vector<NamedNumber> numbers = routing_numbers(layers, {.balance = mean_balance_loss(layers)});
    layout = NumberLayout(numbers);
    for (const Tensor& tensor : values_of(numbers)) {
      const Tensor wide = tensor.to(DType::kFloat64);
      packed.insert(packed.end(), wide.data<double>(), wide.data<double>() + wide.numel());
    }
  }
  return layout.statistics(1, static_cast<std::int64_t>(micro_batches.size()), packed);
}

}  // namespace

TEST_CASE(
    "routing numbers: the balance loss is the mean over layers with routed heads, and their gradients") {
  const std::vector<LayerRouting> stages = {layer(0, 8, {}), layer(3, 6, {0.5, 0.5}), layer(5, 6, {1, 0})};
  const Variable mean = mean_balance_loss(stages);
  CHECK(mean.value().item() == 4);
  mean.backward();
  CHECK(stages[1].balance.grad().item() == 0.5);
  CHECK(stages[2].balance.grad().item() == 0.5);
  CHECK_FALSE(mean_balance_loss(std::vector{layer(0, 8, {})}).defined());
}

TEST_CASE("routing numbers: weights are of the mean over layers, or of each layer") {
  std::vector<LayerRouting> stages = {layer(0, 8, {}), layer(3, 6, {0.5, 0.5}), layer(5, 6, {1, 0})};
  stages[1].z_loss = Variable(full({}, 10.0, DType::kFloat64), true);  // one layer has none: they count apart
  const auto loss = [&](BalanceLayers layers, double share) {
    const Variable task(full({}, 100.0, DType::kFloat64), true);
    MohConfig moh;
    moh.balance_layers = layers;
    moh.balance_weight = 0.5;
    moh.z_loss_weight = 0.25;
    return add_routing_losses(task, mean_balance_loss(stages), stages, moh, share);
  };
  CHECK(loss(BalanceLayers::kMean, 1).value().item() == 100 + 0.5 * 4 + 0.25 * 10);
  CHECK(loss(BalanceLayers::kSum, 1).value().item() == 100 + 0.5 * 8 + 0.25 * 10);
  CHECK(loss(BalanceLayers::kSum, 0.125).value().item() == 100 + 0.125 * (0.5 * 8 + 0.25 * 10));
  loss(BalanceLayers::kSum, 1).backward();
  CHECK(stages[1].balance.grad().item() == 0.5);
  CHECK(stages[2].balance.grad().item() == 0.5);
}

TEST_CASE("routing numbers: those of a step are means over its micro-batches") {
  const StepStatistics found =
      statistics_of({{layer(0, 8, {}), layer(3, 4, {1, 0})}, {layer(0, 8, {}), layer(4, 4, {0, 1})}});
  CHECK(found.scalars == std::vector<NamedScalar>{{"balance_loss", 3.5}, {"activated_heads", 0.75, "heads"}});
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].second == std::vector<std::vector<float>>{{}, {0.5F, 0.5F}});
}

TEST_CASE("routing numbers: computed heads and K that differ by step are those that the layers say") {
  const auto step = [](double heads_each, double top_k) {
    return std::vector{layer(0, 8, {}), counted(layer(3, 8, {1, 0}), heads_each, top_k),
                       counted(layer(3, 8, {1, 0}), heads_each + 1, top_k + 1)};
  };
  const StepStatistics found = statistics_of({step(4, 2), step(6, 3)});
  REQUIRE(found.scalars.size() == 3);
  CHECK(found.scalars[1].value == Approx((8 + 5 + 6) / 24.0));
  CHECK(found.scalars[2].name == "top_k");
  CHECK(found.scalars[2].value == Approx(3));
  // Masks decide how many heads are computed, and K is not annealed.
  const std::vector<LayerRouting> masked = {layer(0, 8, {}), counted(layer(3, 8, {1, 0}), 5, 0)};
  CHECK(statistics_of({masked}).scalars ==
        std::vector<NamedScalar>{{"balance_loss", 3}, {"activated_heads", 13.0 / 16, "heads"}});
}
