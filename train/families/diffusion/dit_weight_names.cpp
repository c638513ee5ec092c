#include "train/families/diffusion/dit_weight_names.h"

#include <string>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "models/diffusion/dit.h"
#include "models/layers/output_gate.h"
#include "train/base/log/format.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/export/dit_export.h"
#include "train/trainer/config/gate_text.h"
#include "train/trainer/config/within_bounds.h"
#include "train/trainer/task/stored_precision.h"
#include "train/trainer/task/trained_identity.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"
#include "train/weights/sizes_in.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

constexpr std::string_view kLabels = "y_embedder.embedding_table.weight", kPositions = "pos_embed",
                           kPatches = "x_embedder.proj.weight";
constexpr std::string_view kModelTypes[] = {kMohDit};
constexpr std::int64_t kMostClasses = 1 << 20, kMostTokens = 1 << 20;

/// Whether the weights have exactly the tensors of the model.
bool are_of(const DitConfig& model, const WeightFile& weights, const WeightNames& names) {
  const DryRunScope no_memory;
  const Dit made(model, DType::kFloat32);
  return compare_weights(infos_of(tensors_of(made.parameters())), weights, &names).none();
}

/// Heads of the published models of this width and depth; 0 if there is none.
std::int64_t published_heads(const DitConfig& c) {
  for (const DitPreset& known : dit_presets()) {
    if (known.config.hidden == c.hidden && known.config.layers == c.layers) return known.config.heads.at(0);
  }
  return 0;
}

DitConfig sizes_in(const WeightFile& weights) {
  DitConfig c;
  c.hidden = length_in(weights, kPatches, 0);
  c.channels = length_in(weights, kPatches, 1);
  c.patch_size = length_in(weights, kPatches, 2);
  c.image_size = side_of_square(length_in(weights, kPositions, 1)) * c.patch_size;
  c.classes = length_in(weights, kLabels, 0) - 1;
  c.layers = count_in(weights, "blocks.", ".attn.qkv.weight");
  const std::int64_t cells = c.patch_size * c.patch_size * c.channels;
  c.learn_variance = length_in(weights, "final_layer.linear.weight", 0) == 2 * cells;
  c.attention_gate = gate_of_rows(length_in(weights, "blocks.0.attn.output_gate.weight", 0),
                                  length_in(weights, "blocks.0.attn.proj.weight", 1));
  c.mlp_ratio = c.hidden > 0 ? length_in(weights, "blocks.0.mlp.fc1.weight", 0) / c.hidden : 0;
  return c;
}

std::string routing_text(const DitConfig& c) {
  const std::string gates = gate_text(c.attention_gate);
  if (!c.moh.router->routes()) return "dense" + gates;
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads" + gates;
}

}  // namespace

std::span<const std::string_view> DitWeightNames::model_types() const {
  return kModelTypes;
}

bool DitWeightNames::recognises(const ConfigJson& json) const {
  return json.has("model_type") && json.text("model_type") == kMohDit;
}

std::unique_ptr<FamilyConfig> DitWeightNames::read_config(const std::filesystem::path& config_json) const {
  return std::make_unique<DiffusionRun>(read_moh_dit_config(config_json, ConfigJson(config_json)));
}

void DitWeightNames::write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                 const ModelLocation& source, std::span<const WeightInfo> tensors) const {
  DiffusionRun run = diffusion_run(config);
  run.remember(trained_identity(source, config));
  run.model.moh.router_precision = router_precision_of(tensors);
  write_moh_dit_files(folder, run, torch_dtype_name(source, tensors));
  copy_companions(companions(source), folder);
}

std::unique_ptr<FamilyConfig> DitWeightNames::published_model(const WeightFile& weights) const {
  const WeightInfo *labels = weights.find(kLabels), *positions = weights.find(kPositions);
  if (labels == nullptr || labels->shape.rank() != 2 || labels->shape[0] < 2 ||
      labels->shape[0] > kMostClasses)
    return nullptr;
  if (positions == nullptr || positions->shape.rank() != 3 || positions->shape[1] > kMostTokens)
    return nullptr;
  const std::int64_t side = side_of_square(positions->shape[1]);
  for (const std::string& name : DiffusionRun().presets()) {
    auto run = std::make_unique<DiffusionRun>();
    run->begin_with_preset(name);
    run->model.classes = labels->shape[0] - 1;
    run->model.image_size = side * run->model.patch_size;
    if (side > 0 && are_of(run->model, weights, *this)) return run;
  }
  return nullptr;
}

std::unique_ptr<FamilyConfig> DitWeightNames::model_in(const WeightFile& weights,
                                                       std::vector<std::string>& untold) const {
  if (weights.find(kLabels) == nullptr || weights.find(kPatches) == nullptr) return nullptr;
  auto run = std::make_unique<DiffusionRun>();
  run->model = sizes_in(weights);
  std::vector<std::string> open;
  if (has_routers(weights)) open = {"model.moh.router", "model.moh.num_shared", "model.moh.top_k"};
  run->model.heads = published_heads(run->model);
  if (run->model.heads.at(0) == 0) {
    run->model.heads = 1;
    open.emplace_back("model.heads");
  }
  ConfigFaults faults;
  check(run->model, faults);
  if (!config::within_bounds(*run) || !faults.all().empty()) return nullptr;
  if (open.empty() && !are_of(run->model, weights, *this)) return nullptr;
  untold = std::move(open);
  return run;
}

std::string DitWeightNames::describe(const FamilyConfig& config) const {
  const DitConfig& c = diffusion_run(config).model;
  return "DiT, " + std::to_string(c.layers) + " layers of width " + std::to_string(c.hidden) +
         ", patches of " + std::to_string(c.patch_size) + " of " + std::to_string(c.image_size) + " x " +
         std::to_string(c.image_size) + " x " + std::to_string(c.channels) + ", " +
         std::to_string(c.classes) + " classes, " + routing_text(c);
}

}  // namespace moh
