#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/head_routing.h"
#include "models/layers/moh_config.h"
#include "models/model.h"
#include "train/tasks/task.h"

namespace moh {

/// The mean of the load-balance losses over the layers with routed heads; undefined if there are none.
Variable mean_balance_loss(std::span<const LayerRouting> routing);
/// The task's loss plus `share` of the weighted auxiliary losses of the routers; `balance` is
/// mean_balance_loss().
Variable add_routing_losses(const Variable& task_loss, const Variable& balance,
                            std::span<const LayerRouting> routing, const MohConfig& moh, double share);

/// Whether the load-balance loss needs the loads of a step of `micro_batches` before its first backward pass
/// (MohConfig::balance_scope).
bool counts_loads_first(const MohConfig& moh, std::int64_t micro_batches);
/// The loads of a model's attention layers, of which `routing` has those with a router; undefined for others.
std::vector<Tensor> loads_of_layers(const Model& model, std::span<const LayerRouting> routing);

/// A routed head is dead in a step whose tokens select it less often than this share of an even load, K / E.
inline constexpr double kDeadShare = 0.01;
/// The number of dead heads of a layer with these loads, which sum to K.
std::int64_t count_dead(std::span<const float> load);

/// Statistics of routed heads for tasks of all families: pack() collects those of a micro-batch on the
/// device, unpack() reads them on the host: those of steps whose layers were as in the last one that was
/// packed.
class RoutingNumbers {
 public:
  /// Appends the statistics of a micro-batch: `balance` and `expert_balance`, the load-balance losses of
  /// heads and of mixtures of feed-forward networks, and `distill`, the divergence from the teacher, if
  /// defined, the computed heads and K of layers where these change from step to step, and the load of each
  /// layer.
  void pack(const Variable& balance, std::span<const LayerRouting> routing, std::vector<Tensor>& numbers,
            const Variable& expert_balance = {}, const Variable& distill = {});
  /// Adds "distill_loss" (a sum over micro-batches), "balance_loss", "expert_balance_loss", "activated_heads"
  /// (the share of heads whose attention was computed), "top_k" (where K is annealed: its mean over the
  /// layers with routed heads) and "head_load" of a step to `result`, averaged over its `count`
  /// micro-batches, whose statistics are concatenated in `numbers`; and by layer "layer_balance_loss",
  /// "routed_weight" and "router_margin" (ops/moh/router_statistics.h), and "dead_heads". Adds nothing for a
  /// dense model without mixtures.
  void unpack(std::int64_t count, std::span<const double> numbers, StepStatistics& result) const;

 private:
  bool balanced_ = false, has_experts_ = false, distilled_ = false;
  std::vector<std::size_t> load_widths_;  // number of routed heads by layer
  /// Which numbers a layer has.
  struct OfLayer {
    bool balance = false, statistics = false, two_stage = false, refuses = false;
  };
  std::vector<OfLayer> of_layers_;
  // Of all layers: heads; computed ones of a token where these never change; layers where they do; layers
  // where K is annealed.
  std::int64_t heads_ = 0, computed_ = 0, counted_ = 0, annealed_ = 0;
};

}  // namespace moh
