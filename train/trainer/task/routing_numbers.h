#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/layers/moh_config.h"
#include "models/model.h"
#include "train/trainer/task/task.h"

namespace moh {

struct LayerRouting;

/// The mean of the load-balance losses over the layers with routed heads; undefined if there are none.
Variable mean_balance_loss(std::span<const LayerRouting> routing);
/// The task's loss plus `share` of the weighted auxiliary losses of the routers; `balance` is
/// mean_balance_loss().
Variable add_routing_losses(const Variable& task_loss, const Variable& balance,
                            std::span<const LayerRouting> routing, const MohConfig& moh, double share);

/// Whether the load-balance loss needs the loads of a step of `micro_batches` before its first backward pass
/// (MohConfig::balance_scope).
bool counts_loads_first(const MohConfig& moh, std::int64_t micro_batches);
/// Routing::balance_load of a model's attention layers, of which `routing` has those with a router; undefined
/// for others.
std::vector<Tensor> loads_of_layers(const Model& model, std::span<const LayerRouting> routing);

/// A routed head is dead in a step whose tokens select it less often than this share of an even load, K / E.
inline constexpr double kDeadShare = 0.01;
/// The number of dead heads of a layer with these loads, which sum to K.
std::int64_t count_dead(std::span<const float> load);

/// Losses of a micro-batch that are reported, each a scalar, undefined if it does not exist.
struct ReportedLosses {
  Variable balance;         ///< mean_balance_loss()
  Variable expert_balance;  ///< load-balance loss of mixtures of feed-forward networks
  Variable distill;         ///< divergence from the teacher
};

/// The key of the loads of a layer's routed heads.
inline constexpr std::string_view kHeadLoad = "head_load";

/// The statistics of routed heads of a micro-batch, for tasks of all families: "distill_loss" (a sum over
/// micro-batches), "balance_loss", "expert_balance_loss", "activated_heads" (the share of heads whose
/// attention is computed), "top_k" (where K is annealed: its mean over the layers with routed heads),
/// "head_load"; and by layer "layer_balance_loss", "routed_weight" and "router_margin"
/// (ops/moh/router_statistics.h), and "dead_heads". None for a dense model without mixtures.
std::vector<NamedNumber> routing_numbers(std::span<const LayerRouting> routing, const ReportedLosses& losses);

}  // namespace moh
