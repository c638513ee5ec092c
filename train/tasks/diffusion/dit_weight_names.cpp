#include "train/tasks/diffusion/dit_weight_names.h"

#include <string>

#include "core/dry_run.h"
#include "models/diffusion/dit.h"
#include "train/log/format.h"
#include "train/tasks/diffusion/diffusion_run.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

constexpr std::string_view kLabels = "y_embedder.embedding_table.weight", kPositions = "pos_embed";
constexpr std::int64_t kMostClasses = 1 << 20, kMostTokens = 1 << 20;

/// Whether the weights have exactly the tensors of the model.
bool are_of(const DitConfig& model, const WeightFile& weights, const WeightNames& names) {
  const DryRunScope no_memory;
  const Dit made(model, DType::kFloat32);
  return compare_weights(infos_of(tensors_of(made.parameters())), weights, &names).none();
}

/// Side of a square of `tokens`; 0 for other numbers.
std::int64_t side_of(std::int64_t tokens) {
  std::int64_t side = 0;
  while (side * side < tokens) ++side;
  return side * side == tokens ? side : 0;
}

std::string routing_text(const DitConfig& c) {
  if (c.moh.router == RouterKind::kNone) return "dense";
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads";
}

}  // namespace

std::unique_ptr<FamilyConfig> DitWeightNames::published_model(const WeightFile& weights) const {
  const WeightInfo *labels = weights.find(kLabels), *positions = weights.find(kPositions);
  if (labels == nullptr || labels->shape.rank() != 2 || labels->shape[0] < 2 ||
      labels->shape[0] > kMostClasses)
    return nullptr;
  if (positions == nullptr || positions->shape.rank() != 3 || positions->shape[1] > kMostTokens)
    return nullptr;
  const std::int64_t side = side_of(positions->shape[1]);
  for (const std::string& name : DiffusionRun().presets()) {
    auto run = std::make_unique<DiffusionRun>();
    run->begin_with_preset(name);
    run->model.classes = labels->shape[0] - 1;
    run->model.image_size = side * run->model.patch_size;
    if (side > 0 && are_of(run->model, weights, *this)) return run;
  }
  return nullptr;
}

std::string DitWeightNames::describe(const FamilyConfig& config) const {
  const DitConfig& c = diffusion_run(config).model;
  return "DiT, " + std::to_string(c.layers) + " layers of width " + std::to_string(c.hidden) +
         ", patches of " + std::to_string(c.patch_size) + " of " + std::to_string(c.image_size) + " x " +
         std::to_string(c.image_size) + " x " + std::to_string(c.channels) + ", " +
         std::to_string(c.classes) + " classes, " + routing_text(c);
}

}  // namespace moh
