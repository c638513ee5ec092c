#include "train/tasks/images/timm_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "train/io/printable.h"
#include "train/tasks/images/label_names.h"

namespace moh {

namespace {

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
  const std::int64_t number = std::stoll(std::string(text));
  return number > 0 ? std::optional(number) : std::nullopt;
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
  if (args.has("mlp_ratio")) {  // a float in timm
    const double ratio = args.number("mlp_ratio");
    if (!(ratio >= 1 && ratio <= kMost && ratio == std::floor(ratio)))
      args.unsupported("mlp_ratio", "a whole number from 1 on", args.shown("mlp_ratio"));
    vit.mlp_ratio = static_cast<std::int64_t>(ratio);
  }
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

}  // namespace

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

std::string timm_config(const ImageModelConfig& c, std::span<const std::string> class_names) {
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
  if (say_more_than_numbers(class_names)) json[std::string(kLabelNames)] = class_names;
  return json.dump(2) + "\n";
}

}  // namespace moh
