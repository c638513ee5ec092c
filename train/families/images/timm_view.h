#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/families/images/image_run.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// Reads what timm's `pretrained_cfg` says of pictures and classes: side of the input, mean, deviation, crop
/// and interpolation, names of classes; run.model has the architecture, and with it names of tensors.
/// `pretrained` is that object, or the whole file where it has none, as timm's earlier ones. Keys that are
/// absent have the values of timm's PretrainedCfg, whatever the architecture. Throws CheckpointError for
/// damaged values; ConfigError for those that moh does not have and for unknown keys, as timm does.
void read_timm_view(const ConfigJson& pretrained, ImageRun& run);

/// How timm's evaluations see a picture.
struct TimmView {
  std::int64_t side = 224;  ///< of the input
  double crop_pct = 0.875;  ///< side / crop_pct, rounded down, is the side before the crop
  std::string_view crop_mode;
  std::string_view interpolation;
};

/// The view with which timm computes what moh does.
TimmView timm_view_of(const ImageDataConfig& settled);

/// The object `pretrained_cfg` of that view, as JSON, which read_timm_view() reads back.
std::string timm_view_json(const ImageRun& run);

}  // namespace moh
