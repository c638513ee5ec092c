#include "train/tasks/routing_numbers.h"

#include <utility>

#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"

namespace moh {

namespace {

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

}  // namespace

Variable mean_balance_loss(std::span<const LayerRouting> routing) {
  return mean_of(&LayerRouting::balance, routing);
}

Variable add_routing_losses(const Variable& task_loss, const Variable& balance,
                            std::span<const LayerRouting> routing, const MohConfig& moh, double share) {
  Variable total = task_loss;
  const auto with = [&](const Variable& loss, double weight) {
    if (loss.defined() && weight > 0) total = add(total, scale(loss, weight * share));
  };
  with(balance, moh.balance_weight);
  with(mean_of(&LayerRouting::z_loss, routing), moh.z_loss_weight);
  return total;
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
  std::int64_t computed = 0, heads = 0, annealed = 0, top_k = 0;
  for (const LayerRouting& layer : routing) {
    computed += layer.computed_heads;
    heads += layer.heads;
    annealed += layer.annealed_top_k > 0 ? 1 : 0;
    top_k += layer.annealed_top_k;
    load_widths_.push_back(layer.load.defined() ? static_cast<std::size_t>(layer.load.numel()) : 0);
    if (layer.load.defined()) numbers.push_back(layer.load);
  }
  computed_share_ = heads > 0 ? static_cast<double>(computed) / static_cast<double>(heads) : 1.0;
  annealed_ = annealed > 0;
  if (!annealed_) return;
  // With the step's other numbers, as the next step may have been begun when they are read.
  const Device device = balance.value().device();
  numbers.push_back(
      full({}, static_cast<double>(top_k) / static_cast<double>(annealed), DType::kFloat64, device));
  numbers.push_back(full({}, computed_share_, DType::kFloat64, device));
}

void RoutingNumbers::unpack(std::int64_t count, std::span<const double> numbers,
                            StepStatistics& result) const {
  double balance_loss = 0, expert_balance_loss = 0, top_k = 0,
         computed_share = annealed_ ? 0 : computed_share_;
  const auto take_mean = [&](double& mean) {
    mean += 1.0 / static_cast<double>(count) * numbers.front();
    numbers = numbers.subspan(1);
  };
  std::vector<std::vector<float>> head_load;
  for (const std::size_t width : load_widths_) head_load.emplace_back(width, 0.0F);
  const float share = 1.0F / static_cast<float>(count);
  double distill_loss = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (distilled_) {
      distill_loss += numbers.front();
      numbers = numbers.subspan(1);
    }
    if (balanced_) take_mean(balance_loss);
    if (has_experts_) take_mean(expert_balance_loss);
    for (std::vector<float>& load : head_load) {
      for (std::size_t e = 0; e < load.size(); ++e) load[e] += share * static_cast<float>(numbers[e]);
      numbers = numbers.subspan(load.size());
    }
    if (!annealed_) continue;
    take_mean(top_k);
    take_mean(computed_share);
  }
  if (distilled_) result.scalars.push_back({"distill_loss", distill_loss});
  if (balanced_) result.scalars.push_back({"balance_loss", balance_loss});
  if (has_experts_) result.scalars.push_back({"expert_balance_loss", expert_balance_loss});
  if (load_widths_.empty()) return;
  result.scalars.push_back({"activated_heads", computed_share, "heads"});
  if (annealed_) result.scalars.push_back({"top_k", top_k});
  result.rows.emplace_back("head_load", std::move(head_load));
}

}  // namespace moh
