#include "train/tasks/routing_numbers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"

namespace moh {

namespace {

/// Numbers of a step, by layer.
struct LayerNumbers {
  explicit LayerNumbers(std::size_t layers) : balance(layers), weight(layers), margin(layers), dead(layers) {}
  std::vector<std::optional<double>> balance, weight, margin, dead;

  /// Those that a layer has.
  void move_to(StepStatistics& result) {
    for (const auto& [name, numbers] :
         {std::pair{"layer_balance_loss", &balance}, std::pair{"routed_weight", &weight},
          std::pair{"router_margin", &margin}, std::pair{"dead_heads", &dead}}) {
      const auto has = [](const std::optional<double>& number) { return number.has_value(); };
      if (std::ranges::any_of(*numbers, has)) result.layers.emplace_back(name, std::move(*numbers));
    }
  }
};

/// The mean of a loss over the layers that have it; undefined if none has.
Variable mean_of(Variable LayerRouting::*loss, std::span<const LayerRouting> routing) {
  Variable sum;
  std::int64_t layers = 0;
  for (const LayerRouting& layer : routing) {
    if (!(layer.*loss).defined()) continue;
    sum = sum.defined() ? add(sum, layer.*loss) : layer.*loss;
    ++layers;
  }
  return layers > 0 ? scale(sum, 1.0 / static_cast<double>(layers)) : Variable();
}

/// The factor that makes a sum of the mean of a loss over layers, if moh.balance_layers asks for it.
double factor_of(Variable LayerRouting::*loss, std::span<const LayerRouting> routing, const MohConfig& moh) {
  if (moh.balance_layers == BalanceLayers::kMean) return 1;
  return static_cast<double>(
      std::ranges::count_if(routing, [&](const LayerRouting& layer) { return (layer.*loss).defined(); }));
}

}  // namespace

std::int64_t count_dead(std::span<const float> load) {
  const double even = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  return std::ranges::count_if(load, [even](float share) { return share < kDeadShare * even; });
}

Variable mean_balance_loss(std::span<const LayerRouting> routing) {
  return mean_of(&LayerRouting::balance, routing);
}

Variable add_routing_losses(const Variable& task_loss, const Variable& balance,
                            std::span<const LayerRouting> routing, const MohConfig& moh, double share) {
  Variable total = task_loss;
  const auto with = [&](const Variable& loss, double weight) {
    if (loss.defined() && weight > 0) total = add(total, scale(loss, weight * share));
  };
  with(balance, moh.balance_weight * factor_of(&LayerRouting::balance, routing, moh));
  with(mean_of(&LayerRouting::z_loss, routing),
       moh.z_loss_weight * factor_of(&LayerRouting::z_loss, routing, moh));
  return total;
}

bool counts_loads_first(const MohConfig& moh, std::int64_t micro_batches) {
  return moh.router != RouterKind::kNone && moh.balance_scope == BalanceScope::kGlobal &&
         moh.balance_weight > 0 && micro_batches > 1;
}

std::vector<Tensor> loads_of_layers(const Model& model, std::span<const LayerRouting> routing) {
  std::vector<Tensor> loads;
  auto next = routing.begin();
  for (const HeadRouter* const router : model.routers())
    loads.push_back(router != nullptr ? (next++)->load : Tensor());
  return loads;
}

void RoutingNumbers::pack(const Variable& balance, std::span<const LayerRouting> routing,
                          std::vector<Tensor>& numbers, const Variable& expert_balance,
                          const Variable& distill) {
  balanced_ = balance.defined();
  has_experts_ = expert_balance.defined();
  distilled_ = distill.defined();
  if (distilled_) numbers.push_back(distill.value());
  if (balanced_) numbers.push_back(balance.value());
  if (has_experts_) numbers.push_back(expert_balance.value());
  load_widths_.clear();
  of_layers_.clear();
  heads_ = computed_ = counted_ = annealed_ = 0;
  for (const LayerRouting& layer : routing) {
    heads_ += layer.heads;
    if (layer.heads_each.defined()) {
      ++counted_;
      numbers.push_back(layer.heads_each);
    } else {
      computed_ += layer.computed_heads;
    }
  }
  for (const LayerRouting& layer : routing) {
    if (!layer.top_k.defined()) continue;
    ++annealed_;
    numbers.push_back(layer.top_k);
  }
  for (const LayerRouting& layer : routing) {
    load_widths_.push_back(layer.load.defined() ? static_cast<std::size_t>(layer.load.numel()) : 0);
    if (layer.load.defined()) numbers.push_back(layer.load);
  }
  for (const LayerRouting& layer : routing) {
    of_layers_.push_back(
        {layer.balance.defined(), layer.statistics.defined(), layer.two_stage, layer.refuses});
    if (layer.balance.defined()) numbers.push_back(layer.balance.value());
    if (layer.statistics.defined()) numbers.push_back(layer.statistics);
  }
}

void RoutingNumbers::unpack(std::int64_t count, std::span<const double> numbers,
                            StepStatistics& result) const {
  double balance_loss = 0, expert_balance_loss = 0, top_k = 0;
  auto computed = static_cast<double>(computed_);
  const auto take_mean = [&](double& mean) {
    mean += 1.0 / static_cast<double>(count) * numbers.front();
    numbers = numbers.subspan(1);
  };
  std::vector<std::vector<float>> head_load;
  for (const std::size_t width : load_widths_) head_load.emplace_back(width, 0.0F);
  const float share = 1.0F / static_cast<float>(count);
  double distill_loss = 0;
  LayerNumbers layers(of_layers_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (distilled_) {
      distill_loss += numbers.front();
      numbers = numbers.subspan(1);
    }
    if (balanced_) take_mean(balance_loss);
    if (has_experts_) take_mean(expert_balance_loss);
    for (std::int64_t layer = 0; layer < counted_; ++layer) take_mean(computed);
    for (std::int64_t layer = 0; layer < annealed_; ++layer) take_mean(top_k);
    for (std::vector<float>& load : head_load) {
      for (std::size_t e = 0; e < load.size(); ++e) load[e] += share * static_cast<float>(numbers[e]);
      numbers = numbers.subspan(load.size());
    }
    for (std::size_t l = 0; l < of_layers_.size(); ++l) {
      const OfLayer& layer = of_layers_[l];
      const auto add_mean = [&](std::vector<std::optional<double>>& means, bool has, double number) {
        if (has) means[l] = means[l].value_or(0) + number / static_cast<double>(count);
      };
      if (layer.balance) {
        add_mean(layers.balance, true, numbers[0]);
        numbers = numbers.subspan(1);
      }
      if (!layer.statistics) continue;
      add_mean(layers.weight, layer.two_stage, numbers[0]);
      add_mean(layers.margin, layer.refuses, numbers[1]);
      numbers = numbers.subspan(2);
    }
  }
  if (distilled_) result.scalars.push_back({"distill_loss", distill_loss});
  if (balanced_) result.scalars.push_back({"balance_loss", balance_loss});
  if (has_experts_) result.scalars.push_back({"expert_balance_loss", expert_balance_loss});
  if (load_widths_.empty()) return;
  const double share_computed = heads_ > 0 ? computed / static_cast<double>(heads_) : 1.0;
  result.scalars.push_back({"activated_heads", share_computed, "heads"});
  if (annealed_ > 0) result.scalars.push_back({"top_k", top_k / static_cast<double>(annealed_)});
  for (std::size_t l = 0; l < of_layers_.size(); ++l) {
    if (of_layers_[l].refuses) layers.dead[l] = static_cast<double>(count_dead(head_load[l]));
  }
  result.rows.emplace_back("head_load", std::move(head_load));
  layers.move_to(result);
}

}  // namespace moh
