#include "train/families/images/timm_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/base/io/printable.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

constexpr double kMostPixels = 1 << 14, kLeastShare = 0.05, kMostShare = 16;

/// Keys of PretrainedCfg that say where weights come from, or what a training at another size would take.
constexpr std::string_view kOfNoEffect[] = {"architecture",
                                            "custom_load",
                                            "description",
                                            "file",
                                            "fixed_input_size",
                                            "global_pool",
                                            "hf_hub_filename",
                                            "hf_hub_id",
                                            "input_size",
                                            "label_descriptions",
                                            "label_names",
                                            "labels",
                                            "license",
                                            "min_input_size",
                                            "model_args",
                                            "notes",
                                            "num_classes",
                                            "num_features",
                                            "origin_url",
                                            "paper_ids",
                                            "paper_name",
                                            "pool_size",
                                            "source",
                                            "state_dict",
                                            "tag",
                                            "test_crop_pct",
                                            "test_input_size",
                                            "test_pool_size",
                                            "url"};
constexpr std::string_view kOfView[] = {"classifier",    "crop_mode",    "crop_pct", "first_conv",
                                        "interpolation", "label_offset", "mean",     "std"};

/// Crop modes of timm that moh has.
constexpr std::string_view kTimmCrops[] = {"center", "squash"};

void refuse_unknown(const ConfigJson& json) {
  for (const std::string& key : json.keys()) {
    if (std::ranges::count(kOfNoEffect, key) == 0 && std::ranges::count(kOfView, key) == 0)
      json.unsupported(key, "a key of timm's PretrainedCfg", json.shown(key), "remove the key");
  }
}

std::string_view first_convolution(ImageArchitecture architecture) {
  return architecture == ImageArchitecture::kVit ? "patch_embed.proj" : "patch_embed1.proj";
}

/// Names of tensors, which are those of the architecture.
void require_name(const ConfigJson& json, std::string_view key, std::string_view expected) {
  if (json.has(key) && json.text(key) != expected) json.unsupported(key, expected, json.shown(key));
}

/// Sets the enumerator of that name; `names` are those of the first ones.
template <class Enum>
void read_name(const ConfigJson& json, std::string_view key, Enum& value,
               std::span<const std::string_view> names) {
  if (!json.has(key)) return;
  const auto found = std::ranges::find(names, json.text(key));
  std::string known;
  for (const std::string_view name : names) known.append(known.empty() ? "" : ", ").append(name);
  if (found == names.end()) json.unsupported(key, "one of " + known, json.shown(key));
  value = static_cast<Enum>(found - names.begin());
}

/// One number for each channel.
void read_channels(const ConfigJson& json, std::string_view key, bool above_zero,
                   std::array<double, 3>& channels) {
  if (!json.has(key)) return;
  const std::vector<double> numbers = json.numbers(key);
  const std::string expected = above_zero ? "3 numbers above 0" : "3 numbers from 0 to 1";
  const auto fits = [above_zero](double x) { return above_zero ? x > 0 : x >= 0 && x <= 1; };
  if (numbers.size() != channels.size() || !std::ranges::all_of(numbers, fits))
    json.unsupported(key, expected, json.shown(key));
  std::ranges::copy(numbers, channels.begin());
}

std::int64_t input_side(const ConfigJson& json, std::string_view key) {
  const std::vector<std::int64_t> size = json.integers(key, 1, kMostPixels);
  if (size.size() != 3 || size[0] != 3 || size[1] != size[2])
    json.unsupported(key, "3 channels and a side twice", json.shown(key));
  return size[1];
}

}  // namespace

void read_timm_view(const ConfigJson& pretrained, ImageRun& run) {
  refuse_unknown(pretrained);
  require_name(pretrained, "first_conv", first_convolution(run.model.architecture));
  require_name(pretrained, "classifier", "head");
  if (pretrained.number_or("label_offset", 0) != 0)
    pretrained.unsupported("label_offset", "0: the classifier has a row for each class",
                           pretrained.shown("label_offset"),
                           "in Python, create_model() drops the rows; save that model");
  ImageDataConfig& data = run.data;
  if (pretrained.has("input_size")) data.image_size = input_side(pretrained, "input_size");
  read_channels(pretrained, "mean", /*above_zero=*/false, data.normalize.mean);
  read_channels(pretrained, "std", /*above_zero=*/true, data.normalize.std);
  read_name(pretrained, "interpolation", data.interpolation, names_of(data.interpolation));
  read_name(pretrained, "crop_mode", data.eval_crop, kTimmCrops);
  data.eval_share = pretrained.number_or("crop_pct", data.eval_share);
  if (!(data.eval_share >= kLeastShare && data.eval_share <= kMostShare))
    pretrained.unsupported("crop_pct", "a number from 0.05 to 16", pretrained.shown("crop_pct"));
}

TimmView timm_view_of(const ImageDataConfig& settled) {
  if (settled.eval_crop == EvaluationCrop::kOriginal) {  // a picture of this size, which timm resizes to it
    return {.side = settled.image_size,
            .crop_pct = 1,
            .crop_mode = name_of(EvaluationCrop::kCenter),
            .interpolation = name_of(settled.interpolation)};
  }
  const auto side = static_cast<double>(settled.image_size),
             resized = static_cast<double>(settled.eval_resize);
  TimmView view{.side = settled.image_size,
                .crop_pct = settled.eval_share,
                .crop_mode = name_of(settled.eval_crop),
                .interpolation = name_of(settled.interpolation)};
  if (std::floor(side / view.crop_pct) == resized) return view;
  view.crop_pct = side / resized;
  while (std::floor(side / view.crop_pct) < resized)
    view.crop_pct = std::nextafter(view.crop_pct, -std::numeric_limits<double>::infinity());
  return view;
}

std::string timm_view_json(const ImageRun& run) {
  const ImageDataConfig data = run.settled_data();
  const TimmView view = timm_view_of(data);
  const nlohmann::ordered_json json = {{"input_size", {3, view.side, view.side}},
                                       {"interpolation", view.interpolation},
                                       {"crop_pct", view.crop_pct},
                                       {"crop_mode", view.crop_mode},
                                       {"mean", data.normalize.mean},
                                       {"std", data.normalize.std},
                                       {"num_classes", run.model.classes},
                                       {"pool_size", nullptr},
                                       {"first_conv", first_convolution(run.model.architecture)},
                                       {"classifier", "head"}};
  return json.dump();
}

}  // namespace moh
