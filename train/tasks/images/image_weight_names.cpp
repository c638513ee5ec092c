#include "train/tasks/images/image_weight_names.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "models/vision/resample.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/log/format.h"
#include "train/tasks/images/image_run.h"
#include "train/weights/compare_weights.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/load_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

constexpr std::string_view kHead = "head.weight";

// ---- timm's config.json ----

/// Sizes by the words in timm's names of architectures.
struct TimmSize {
  std::string_view word;
  std::int64_t hidden, layers, heads;
};
constexpr TimmSize kTimmSizes[] = {
    {"tiny", 192, 12, 3}, {"small", 384, 12, 6}, {"base", 768, 12, 12}, {"large", 1024, 24, 16}};

/// "small", 16 and 224 of "deit_small_patch16_224.fb_in1k".
struct TimmName {
  const TimmSize* size;
  std::int64_t patch, image;
};

std::optional<std::int64_t> number_in(std::string_view text) {
  if (text.empty() || text.size() > 5 ||
      !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return {};
  return std::stoll(std::string(text));
}

std::optional<TimmName> parse_timm_name(std::string_view name) {
  name = name.substr(0, name.find('.'));
  if (!name.starts_with("deit_") && !name.starts_with("vit_")) return {};
  name.remove_prefix(name.find('_') + 1);
  const std::size_t patch_at = name.find("_patch"), image_at = name.rfind('_');
  if (patch_at == std::string_view::npos || image_at <= patch_at) return {};
  const auto size = std::ranges::find(kTimmSizes, name.substr(0, patch_at), &TimmSize::word);
  const auto patch = number_in(name.substr(patch_at + 6, image_at - patch_at - 6));
  const auto image = number_in(name.substr(image_at + 1));
  if (size == std::end(kTimmSizes) || !patch || !image) return {};
  return TimmName{&*size, *patch, *image};
}

constexpr double kMost = 1 << 20;

/// The arguments by which a model differs from its architecture.
void read_model_args(const ConfigJson& args, ImageModelConfig& config) {
  VitConfig& vit = config.vit;
  const auto read = [&](std::string_view key, std::int64_t& to) {
    if (args.has(key)) to = args.integer(key, 1, kMost);
  };
  read("embed_dim", vit.hidden);
  read("depth", vit.layers);
  read("num_heads", vit.heads);
  read("patch_size", vit.patch_size);
  read("mlp_ratio", vit.mlp_ratio);
  read("img_size", config.image_size);
  read("num_classes", config.classes);
  constexpr std::string_view kKnown[] = {"embed_dim", "depth",    "num_heads",   "patch_size",
                                         "mlp_ratio", "img_size", "num_classes", "global_pool"};
  for (const std::string& key : args.keys()) {
    if (std::ranges::find(kKnown, key) == std::end(kKnown))
      args.unsupported(key, "an argument that moh knows", printable(args.shown(key)));
  }
}

VitPooling pooling_of(const ConfigJson& json) {
  const std::string pool = json.text_or("global_pool", "token");
  if (pool == "token") return VitPooling::kClassToken;
  if (pool == "avg") return VitPooling::kMean;
  json.unsupported("global_pool", "token or avg", printable(pool));
}

ImageModelConfig read_timm_config(const ConfigJson& json) {
  const std::string architecture = json.text("architecture");
  const std::optional<TimmName> name = parse_timm_name(architecture);
  if (!name) {
    json.unsupported("architecture",
                     "deit_* or vit_* of timm in sizes tiny to large, as deit_small_patch16_224",
                     printable(architecture));
  }
  ImageModelConfig config;
  config.architecture = ImageArchitecture::kVit;
  config.vit.hidden = name->size->hidden;
  config.vit.layers = name->size->layers;
  config.vit.heads = name->size->heads;
  config.vit.patch_size = name->patch;
  config.image_size = name->image;
  if (json.has("pretrained_cfg")) {
    const ConfigJson pretrained = json.object("pretrained_cfg");
    if (pretrained.has("input_size")) {
      const std::vector<std::int64_t> size = pretrained.integers("input_size", 1, kMost);
      if (size.size() != 3 || size[1] != size[2])
        pretrained.unsupported("input_size", "channels and a side twice", pretrained.shown("input_size"));
      config.image_size = size[1];
    }
  }
  if (json.has("num_classes")) config.classes = json.integer("num_classes", 1, kMost);
  config.vit.pooling = pooling_of(json);
  if (json.has("model_args")) {
    const ConfigJson args = json.object("model_args");
    read_model_args(args, config);
    if (args.has("global_pool")) config.vit.pooling = pooling_of(args);
  }
  return config;
}

/// timm's name of the architecture, and the arguments in which the model differs from it.
nlohmann::ordered_json timm_config(const ImageModelConfig& c) {
  const auto size = std::ranges::find_if(kTimmSizes, [&](const TimmSize& known) {
    return known.hidden == c.vit.hidden && known.layers == c.vit.layers && known.heads == c.vit.heads;
  });
  const bool known = size != std::end(kTimmSizes) && c.vit.mlp_ratio == 4;
  const std::string name = "vit_" + std::string(known ? size->word : "base") + "_patch" +
                           (c.vit.patch_size == 32 ? "32" : "16") + "_224";
  const std::string pool = c.vit.pooling == VitPooling::kMean ? "avg" : "token";
  nlohmann::ordered_json json;
  json["architecture"] = name;
  json["num_classes"] = c.classes;
  json["num_features"] = c.vit.hidden;
  json["global_pool"] = pool;
  json["model_args"] = {{"img_size", c.image_size},  {"patch_size", c.vit.patch_size},
                        {"embed_dim", c.vit.hidden}, {"depth", c.vit.layers},
                        {"num_heads", c.vit.heads},  {"mlp_ratio", c.vit.mlp_ratio},
                        {"num_classes", c.classes},  {"global_pool", pool}};
  json["pretrained_cfg"] = {{"input_size", {3, c.image_size, c.image_size}},
                            {"num_classes", c.classes},
                            {"pool_size", nullptr},
                            {"first_conv", "patch_embed.proj"},
                            {"classifier", "head"}};
  return json;
}

// ---- Published models ----

/// Whether the weights have exactly the tensors of the model.
bool are_of(const ImageModelConfig& model, const WeightFile& weights, const WeightNames& names) {
  const DryRunScope no_memory;
  const auto made = make_image_model(model, DType::kFloat32);
  return compare_weights(infos_of(tensors_of(made->parameters())), weights, &names).none();
}

/// Side of a square of tokens; 0 for other numbers.
std::int64_t side_of(std::int64_t tokens) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? side : 0;
}

std::string routing_text(const ImageModelConfig& c) {
  if (c.moh.router == RouterKind::kNone) return "dense";
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads";
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

std::span<const std::string_view> ImageWeightNames::model_types() const {
  return {};  // timm's files have an architecture instead
}

bool ImageWeightNames::recognises(const ConfigJson& json) const {
  return json.has("architecture") && !json.has("model_type");
}

std::unique_ptr<FamilyConfig> ImageWeightNames::read_config(const std::filesystem::path& config_json) const {
  auto run = std::make_unique<ImageRun>();
  run->model = read_timm_config(ConfigJson(config_json));
  return run;
}

std::unique_ptr<FamilyConfig> ImageWeightNames::published_model(const WeightFile& weights) const {
  const WeightInfo* head = weights.find(kHead);
  if (head == nullptr || head->shape.rank() != 2 || head->shape[0] < 1 || head->shape[0] > kMost)
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

void ImageWeightNames::write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                   const ModelLocation& source, std::span<const WeightInfo>) const {
  const ImageModelConfig& model = image_run(config).model;
  if (model.architecture != ImageArchitecture::kVit || model.moh.router != RouterKind::kNone ||
      model.vit.single_kv_head || model.vit.norm_eps != VitConfig().norm_eps) {
    throw ConfigError(error_message(folder.string(), "format hf",
                                    "a dense vision transformer, which timm has too", describe(config),
                                    "convert to safetensors: names are those of the released code"));
  }
  write_file_durably(folder / "config.json", timm_config(model).dump(2) + "\n");
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
    const std::int64_t before = side_of(from[1] - prefix), after = side_of(to[1] - prefix);
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
