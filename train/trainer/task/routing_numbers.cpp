#include "train/trainer/task/routing_numbers.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "models/layers/head_routing.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/mean_of.h"
#include "ops/elementwise/scale.h"

namespace moh {

namespace {

/// The mean of a loss over the layers that have it; undefined if none has.
Variable mean_over_layers(Variable LayerRouting::*loss, std::span<const LayerRouting> routing) {
  std::vector<Variable> losses;
  for (const LayerRouting& layer : routing) {
    if ((layer.*loss).defined()) losses.push_back(layer.*loss);
  }
  return losses.empty() ? Variable() : mean_of(losses);
}

/// The factor that makes a sum of the mean of a loss over layers, if moh.balance_layers asks for it.
double factor_of(Variable LayerRouting::*loss, std::span<const LayerRouting> routing, const MohConfig& moh) {
  if (moh.balance_layers == BalanceLayers::kMean) return 1;
  return static_cast<double>(
      std::ranges::count_if(routing, [&](const LayerRouting& layer) { return (layer.*loss).defined(); }));
}

double dead_heads_of(std::span<const float> load) {
  return static_cast<double>(count_dead(load));
}

}  // namespace

std::int64_t count_dead(std::span<const float> load) {
  const double even = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  return std::ranges::count_if(load, [even](float share) { return share < kDeadShare * even; });
}

Variable mean_balance_loss(std::span<const LayerRouting> routing) {
  return mean_over_layers(&LayerRouting::balance, routing);
}

Variable add_routing_losses(const Variable& task_loss, const Variable& balance,
                            std::span<const LayerRouting> routing, const MohConfig& moh, double share) {
  Variable total = task_loss;
  const auto with = [&](const Variable& loss, double weight) {
    if (loss.defined() && weight > 0) total = add(total, scale(loss, weight * share));
  };
  with(balance, moh.balance_weight * factor_of(&LayerRouting::balance, routing, moh));
  with(mean_over_layers(&LayerRouting::z_loss, routing),
       moh.z_loss_weight * factor_of(&LayerRouting::z_loss, routing, moh));
  return total;
}

bool counts_loads_first(const MohConfig& moh, std::int64_t micro_batches) {
  return moh.router->routes() && moh.balance_scope == BalanceScope::kGlobal && moh.balance_weight > 0 &&
         micro_batches > 1;
}

std::vector<Tensor> loads_of_layers(const Model& model, std::span<const LayerRouting> routing) {
  std::vector<Tensor> loads;
  auto next = routing.begin();
  for (const HeadRouter* const router : model.routers())
    loads.push_back(router != nullptr ? (next++)->balance_load : Tensor());
  return loads;
}

std::vector<NamedNumber> routing_numbers(std::span<const LayerRouting> routing,
                                         const ReportedLosses& losses) {
  using enum NumberKind;
  std::vector<NamedNumber> numbers;
  const auto add_loss = [&](std::string_view key, NumberKind kind, const Variable& loss) {
    if (loss.defined()) numbers.push_back({.key = key, .kind = kind, .value = loss.value()});
  };
  add_loss("distill_loss", kSum, losses.distill);
  add_loss("balance_loss", kMean, losses.balance);
  add_loss("expert_balance_loss", kMean, losses.expert_balance);
  for (const LayerRouting& layer : routing) {
    const bool changes = layer.heads_each.defined();
    numbers.push_back({.key = "activated_heads",
                       .value = layer.heads_each,
                       .constant = changes ? 0.0 : static_cast<double>(layer.computed_heads),
                       .weight = static_cast<double>(layer.heads),
                       .label = "heads"});
  }
  for (const LayerRouting& layer : routing) {
    if (layer.top_k.defined()) numbers.push_back({.key = "top_k", .value = layer.top_k});
  }
  const auto add_of_layers = [&](std::string_view key, NumberKind kind, auto&& value_of) {
    std::int64_t number = 0;
    for (const LayerRouting& layer : routing)
      numbers.push_back({.key = key, .kind = kind, .value = value_of(layer), .layer = number++});
  };
  add_of_layers("layer_balance_loss", kLayer, [](const LayerRouting& layer) {
    return layer.balance.defined() ? layer.balance.value() : Tensor();
  });
  add_of_layers("routed_weight", kLayer, [](const LayerRouting& layer) {
    return layer.statistics.defined() && layer.two_stage ? layer.statistics.slice(0, 1) : Tensor();
  });
  add_of_layers("router_margin", kLayer, [](const LayerRouting& layer) {
    const bool has_margin = layer.refuses && layer.statistics.defined() && layer.statistics.numel() == 2;
    return has_margin ? layer.statistics.slice(1, 2) : Tensor();
  });
  std::int64_t number = 0;
  for (const LayerRouting& layer : routing) {
    numbers.push_back({.key = kHeadLoad,
                       .kind = kRow,
                       .value = layer.load,
                       .layer = number++,
                       .derived = {"dead_heads", layer.refuses ? dead_heads_of : nullptr}});
  }
  return numbers;
}

}  // namespace moh
