#include "train/families/images/timm_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "train/base/io/printable.h"
#include "train/families/images/label_names.h"
#include "train/families/images/timm_view.h"

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

/// Arguments of timm's VisionTransformer that moh does not have, with the value that changes nothing.
struct FixedArgument {
  std::string_view key, value;
};
constexpr FixedArgument kFixed[] = {{"in_chans", "3"},
                                    {"qkv_bias", "true"},
                                    {"proj_bias", "true"},
                                    {"qk_norm", "false"},
                                    {"scale_attn_norm", "false"},
                                    {"scale_mlp_norm", "false"},
                                    {"pos_embed", "\"learn\""},
                                    {"no_embed_class", "false"},
                                    {"reg_tokens", "0"},
                                    {"pre_norm", "false"},
                                    {"final_norm", "true"},
                                    {"act_layer", "\"gelu\""},
                                    {"norm_layer", "\"layernorm\""},
                                    {"pool_include_prefix", "false"},
                                    {"dynamic_img_pad", "false"}};

/// Arguments that only a training sees, or how a model begins.
constexpr std::string_view kTimmTraining[] = {"drop_rate",      "pos_drop_rate",  "patch_drop_rate",
                                              "proj_drop_rate", "attn_drop_rate", "drop_path_rate",
                                              "weight_init",    "fix_init"};
constexpr std::string_view kRead[] = {"embed_dim", "depth",       "num_heads",       "patch_size",
                                      "mlp_ratio", "img_size",    "num_classes",     "global_pool",
                                      "fc_norm",   "class_token", "dynamic_img_size"};

void refuse_others(const ConfigJson& args) {
  for (const std::string& key : args.keys()) {
    if (std::ranges::count(kTimmTraining, key) + std::ranges::count(kRead, key) > 0) continue;
    const auto fixed = std::ranges::find(kFixed, key, &FixedArgument::key);
    if (fixed == std::end(kFixed)) args.unsupported(key, "an argument that moh knows", args.shown(key));
    if (args.shown(key) != fixed->value) args.unsupported(key, fixed->value, args.shown(key));
  }
}

/// A number, or a list of it twice.
std::int64_t side_of(const ConfigJson& args, std::string_view key) {
  if (!args.is_list(key)) return args.integer(key, 1, kMost);
  const std::vector<std::int64_t> sides = args.integers(key, 1, kMost);
  if (sides.size() != 2 || sides[0] != sides[1]) args.unsupported(key, "a square", args.shown(key));
  return sides[0];
}

/// The arguments by which a model differs from its architecture.
void read_model_args(const ConfigJson& args, ImageModelConfig& config) {
  refuse_others(args);
  VitConfig& vit = config.vit;
  const auto read = [&](std::string_view key, std::int64_t& to) {
    if (args.has(key)) to = args.integer(key, 1, kMost);
  };
  read("embed_dim", vit.hidden);
  read("depth", vit.layers);
  read("num_heads", vit.heads);
  read("num_classes", config.classes);
  if (args.has("patch_size")) vit.patch_size = side_of(args, "patch_size");
  if (args.has("img_size")) config.image_size = side_of(args, "img_size");
  if (args.has("mlp_ratio")) {  // a float in timm
    const double ratio = args.number("mlp_ratio");
    if (!(ratio >= 1 && ratio <= kMost && ratio == std::floor(ratio)))
      args.unsupported("mlp_ratio", "a whole number from 1 on", args.shown("mlp_ratio"));
    vit.mlp_ratio = static_cast<std::int64_t>(ratio);
  }
}

VitPooling pooling_of(const ConfigJson& json) {
  const std::string pool = json.text_or("global_pool", "token");
  if (pool == "token") return VitPooling::kClassToken;
  if (pool == "avg") return VitPooling::kMean;
  json.unsupported("global_pool", "token or avg", printable(pool));
}

/// Arguments that follow from global_pool: a model that moh has reads its class token, or the mean of patches
/// without one.
void check_pooling(const ConfigJson& args, VitPooling pooling) {
  const bool is_mean = pooling == VitPooling::kMean;
  const std::string pool = is_mean ? " with global_pool avg" : " with global_pool token";
  const auto require = [&](std::string_view key, bool expected) {
    if (args.truth_or(key, expected) != expected)
      args.unsupported(key, (expected ? "true" : "false") + pool, args.shown(key));
  };
  require("fc_norm", is_mean);
  require("class_token", !is_mean);
}

TimmName name_of_architecture(const ConfigJson& json) {
  const std::string architecture = json.text("architecture");
  const std::optional<TimmName> name = parse_timm_name(architecture);
  if (!name) {
    json.unsupported("architecture",
                     "deit_* or vit_* of timm in sizes tiny to large, as deit_small_patch16_224",
                     printable(architecture));
  }
  return *name;
}

ImageModelConfig model_of(const TimmName& name) {
  ImageModelConfig config;
  config.architecture = ImageArchitecture::kVit;
  config.vit.hidden = name.size->hidden;
  config.vit.layers = name.size->layers;
  config.vit.heads = name.size->heads;
  config.vit.patch_size = name.patch;
  config.image_size = name.image;
  return config;
}

/// Classes of the model: what the file says counts before its pretrained_cfg, as in timm.
void read_classes(const ConfigJson& json, const ConfigJson& pretrained, std::int64_t& classes) {
  for (const ConfigJson* each : {&pretrained, &json}) {
    if (each->has("num_classes")) classes = each->integer("num_classes", 1, kMost);
  }
}

}  // namespace

std::int64_t timm_heads(std::int64_t hidden, std::int64_t layers) {
  for (const TimmSize& known : kTimmSizes) {
    if (known.hidden == hidden && known.layers == layers) return known.heads;
  }
  return 0;
}

ImageRun read_timm_config(const ConfigJson& json) {
  ImageRun run;
  run.model = model_of(name_of_architecture(json));
  const ConfigJson pretrained = json.has("pretrained_cfg") ? json.object("pretrained_cfg") : json;
  read_timm_view(pretrained, run);
  if (run.data.image_size != 0) run.model.image_size = run.data.image_size;
  read_classes(json, pretrained, run.model.classes);
  VitPooling& pooling = run.model.vit.pooling;
  pooling = pooling_of(json);
  bool takes_others = false;
  if (json.has("model_args")) {
    const ConfigJson args = json.object("model_args");
    read_model_args(args, run.model);
    if (args.has("global_pool")) pooling = pooling_of(args);
    check_pooling(args, pooling);
    takes_others = args.truth_or("dynamic_img_size", false);
  }
  if (!takes_others || run.data.image_size == run.model.image_size) run.data.image_size = 0;
  run.class_names = read_label_names(json, run.model.classes);
  if (run.class_names.empty()) run.class_names = read_label_names(pretrained, run.model.classes);
  return run;
}

std::string timm_config(const ImageRun& run) {
  const ImageModelConfig& c = run.model;
  const auto size = std::ranges::find_if(kTimmSizes, [&](const TimmSize& known) {
    return known.hidden == c.vit.hidden && known.layers == c.vit.layers && known.heads == c.vit.heads;
  });
  const bool known = size != std::end(kTimmSizes) && c.vit.mlp_ratio == 4;
  const std::string name = "vit_" + std::string(known ? size->word : "base") + "_patch" +
                           (c.vit.patch_size == 32 ? "32" : "16") + "_224";
  const std::string pool = c.vit.pooling == VitPooling::kMean ? "avg" : "token";
  const TimmView view = timm_view_of(run.settled_data());
  nlohmann::ordered_json json;
  json["architecture"] = name;
  json["num_classes"] = c.classes;
  json["num_features"] = c.vit.hidden;
  json["global_pool"] = pool;
  if (say_more_than_numbers(run.class_names)) json[std::string(kLabelNames)] = run.class_names;
  json["model_args"] = {{"img_size", c.image_size},  {"patch_size", c.vit.patch_size},
                        {"embed_dim", c.vit.hidden}, {"depth", c.vit.layers},
                        {"num_heads", c.vit.heads},  {"mlp_ratio", c.vit.mlp_ratio},
                        {"num_classes", c.classes},  {"global_pool", pool}};
  if (c.vit.pooling == VitPooling::kMean) json["model_args"]["class_token"] = false;
  if (view.side != c.image_size) json["model_args"]["dynamic_img_size"] = true;
  json["pretrained_cfg"] = nlohmann::ordered_json::parse(timm_view_json(run));
  return json.dump(2) + "\n";
}

}  // namespace moh
