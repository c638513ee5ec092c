#include "train/families/images/image_weight_names.h"

#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "models/vision/resample.h"
#include "train/base/io/durable_file.h"
#include "train/base/log/format.h"
#include "train/families/images/export/image_export.h"
#include "train/families/images/image_run.h"
#include "train/families/images/model_in_tensors.h"
#include "train/families/images/timm_config.h"
#include "train/trainer/config/gate_text.h"
#include "train/trainer/config/within_bounds.h"
#include "train/trainer/task/stored_precision.h"
#include "train/trainer/task/trained_identity.h"
#include "train/weights/compare_weights.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/load_weights.h"
#include "train/weights/sizes_in.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

constexpr std::string_view kHead = "head.weight";
constexpr std::int64_t kMostHeadRows = 1 << 20;
constexpr std::string_view kModelTypes[] = {kMohVit};

/// Whether the weights have exactly the tensors of the model.
bool are_of(const ImageModelConfig& model, const WeightFile& weights, const WeightNames& names) {
  const DryRunScope no_memory;
  const auto made = make_image_model(model, DType::kFloat32);
  return compare_weights(infos_of(tensors_of(made->parameters())), weights, &names).none();
}

std::string routing_text(const ImageModelConfig& c) {
  const std::string gates = gate_text(c.attention_gate);
  if (!c.moh.router->routes()) return "dense" + gates;
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads" + gates;
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

/// Whether timm's VisionTransformer computes the model.
bool timm_has(const ImageModelConfig& model) {
  return model.architecture == ImageArchitecture::kVit && !model.moh.router->routes() &&
         !model.vit.single_kv_head && model.vit.norm_eps == VitConfig().norm_eps &&
         model.attention_gate == AttentionGate::kNone &&
         model.vit.head_width() * model.vit.heads == model.vit.hidden;
}

}  // namespace

std::span<const std::string_view> ImageWeightNames::model_types() const {
  return kModelTypes;  // timm's files have an architecture instead
}

bool ImageWeightNames::recognises(const ConfigJson& json) const {
  return json.has("model_type") ? json.text("model_type") == kMohVit : json.has("architecture");
}

std::unique_ptr<FamilyConfig> ImageWeightNames::read_config(const std::filesystem::path& config_json) const {
  const ConfigJson json(config_json);
  return std::make_unique<ImageRun>(json.has("model_type") ? read_moh_vit_config(config_json, json)
                                                           : read_timm_config(json));
}

std::unique_ptr<FamilyConfig> ImageWeightNames::published_model(const WeightFile& weights) const {
  const WeightInfo* head = weights.find(kHead);
  if (head == nullptr || head->shape.rank() != 2 || head->shape[0] < 1 || head->shape[0] > kMostHeadRows)
    return nullptr;
  const bool vit = weights.find("patch_embed.proj.weight") != nullptr;
  if (!vit && weights.find("patch_embed1.proj.weight") == nullptr) return nullptr;
  for (const std::string& name : image_presets()) {
    auto run = std::make_unique<ImageRun>();
    run->begin_with_preset(name);
    if ((run->model.architecture == ImageArchitecture::kVit) != vit) continue;
    run->model.classes = head->shape[0];
    if (are_of(run->model, weights, *this)) return run;
  }
  return nullptr;
}

std::unique_ptr<FamilyConfig> ImageWeightNames::model_in(const WeightFile& weights,
                                                         std::vector<std::string>& untold) const {
  ModelInTensors found = image_model_in(weights);
  auto run = std::make_unique<ImageRun>();
  run->model = std::move(found.model);
  ConfigFaults faults;
  check(run->model, faults);
  if (!config::within_bounds(*run) || !faults.all().empty()) return nullptr;
  if (found.untold.empty() && !are_of(run->model, weights, *this)) return nullptr;
  untold.assign(found.untold.begin(), found.untold.end());
  return run;
}

void ImageWeightNames::write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                   const ModelLocation& source, std::span<const WeightInfo> tensors) const {
  ImageRun run = image_run(config);
  run.class_names = class_names_in(trained_identity(source, config), {});
  if (timm_has(run.model)) {
    write_file_durably(folder / "config.json", timm_config(run));
  } else {
    run.model.moh.router_precision = router_precision_of(tensors);
    write_moh_vit_files(folder, run, torch_dtype_name(source, tensors));
  }
  copy_companions(companions(source), folder);
}

bool ImageWeightNames::is_redundant(const WeightFile&, const WeightInfo& tensor) const {
  const std::string& name = tensor.name;
  return name.starts_with("relative_pos_index") || name.starts_with("relative_coords_table") ||
         name.ends_with(".padding_mask") || name.ends_with(".seq_length_scale");
}

Tensor ImageWeightNames::resizing(std::string_view parameter, const Shape& from, const Shape& to) const {
  if (parameter != "pos_embed" || from.rank() != 3 || to.rank() != 3 || from[0] != 1 || from[2] != to[2])
    return {};
  for (const std::int64_t prefix : {0, 1}) {  // a class token, which has no place in the image
    const std::int64_t before = side_of_square(from[1] - prefix), after = side_of_square(to[1] - prefix);
    if (before > 0 && after > 0) return position_weights({before, before}, {after, after}, prefix);
  }
  return {};
}

bool ImageWeightNames::begins_anew(std::string_view parameter, const FamilyConfig& run) const {
  return image_run(run).new_head && (parameter == kHead || parameter == "head.bias");
}

std::string ImageWeightNames::describe(const FamilyConfig& config) const {
  const ImageModelConfig& c = image_run(config).model;
  const std::string classes = ", " + std::to_string(c.classes) + " classes, ";
  if (c.architecture == ImageArchitecture::kVit) {
    return "ViT, " + std::to_string(c.vit.layers) + " layers of width " + std::to_string(c.vit.hidden) +
           ", " + std::to_string(c.vit.heads) + " heads, patches of " + std::to_string(c.vit.patch_size) +
           classes + routing_text(c);
  }
  return "TransNeXt, stages of " + list_of(c.transnext.depths) + " blocks of width " +
         list_of(c.transnext.dims) + " and " + list_of(c.transnext.heads) + " heads" + classes +
         routing_text(c);
}

}  // namespace moh
