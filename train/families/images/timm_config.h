#pragma once

#include <span>
#include <string>

#include "train/families/images/image_run.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The model of a config.json of timm, which names an architecture (deit_* and vit_* in sizes tiny to large)
/// and the arguments in which the model differs from it; with how it sees pictures and the names of its
/// classes (timm_view.h). Throws CheckpointError for a malformed file, ConfigError for a model that moh does
/// not have, and for arguments that would change its results.
ImageRun read_timm_config(const ConfigJson& json);

/// Heads of timm's vision transformer of this width and number of layers; 0 if it has none of these sizes.
std::int64_t timm_heads(std::int64_t hidden, std::int64_t layers);

/// The text of such a file, for a dense vision transformer: timm's name of the architecture, the arguments in
/// which the model differs from it, and in `pretrained_cfg` the view with which timm's evaluations compute
/// what moh's do.
std::string timm_config(const ImageRun& run);

}  // namespace moh
