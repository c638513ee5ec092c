#pragma once

#include <span>
#include <string>

#include "train/tasks/images/image_model_config.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The model of a config.json of timm, which names an architecture (deit_* and vit_* in sizes tiny to large)
/// and the arguments in which the model differs from it. Throws CheckpointError for a malformed file,
/// ConfigError for a model that moh does not have.
ImageModelConfig read_timm_config(const ConfigJson& json);

/// The text of such a file, for a dense vision transformer: timm's name of the architecture, the arguments in
/// which the model differs from it, and the names of its classes, if they are not just numbers.
std::string timm_config(const ImageModelConfig& config, std::span<const std::string> class_names = {});

}  // namespace moh
