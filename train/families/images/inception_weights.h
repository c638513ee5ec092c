#pragma once

#include <filesystem>
#include <memory>

#include "models/vision/inception.h"

namespace moh {

/// Inception with the weights of a published file: TensorFlow's frozen graph of December 2015
/// (classify_image_graph_def.pb, as the evaluator of guided-diffusion reads it), or its conversions to
/// PyTorch (pt_inception-2015-12-05-6726825d.pth of pytorch-fid, weights-inception-2015-12-05-6726825d.pth of
/// torch-fidelity), whatever its name. A batch normalisation becomes part of its convolution: the weight of
/// output o is multiplied by gamma / sqrt(variance + epsilon) in float64. Throws CheckpointError for another
/// file, and for weights that are missing, of another shape, or not finite.
std::unique_ptr<Inception> load_inception(const std::filesystem::path& path, Placement placement);

}  // namespace moh
