#pragma once

#include <string_view>
#include <vector>

#include "train/base/formats/weight_file.h"
#include "train/families/images/image_model_config.h"

namespace moh {

/// A model whose tensors these could be, and the keys of the configuration that they do not tell.
struct ModelInTensors {
  ImageModelConfig model;
  std::vector<std::string_view> untold;
};

/// The vision transformer or TransNeXt that names and shapes of tensors tell. Of a vision transformer they
/// leave the number of heads open, which is timm's for the widths and depths that timm has; of a TransNeXt
/// what is pooled; of MoH how many heads are active. `classes` is 0 for tensors that are of neither
/// architecture.
ModelInTensors image_model_in(const WeightFile& weights);

}  // namespace moh
