#pragma once

#include "core/function_ref.h"
#include "core/tensor.h"
#include "models/vision/image_model.h"
#include "train/families/images/data/picture_source.h"

namespace moh {

struct RunConfig;

/// Results of a classifier for N pictures, float64 on the CPU.
struct ClassifierFeatures {
  Tensor features;       ///< [N, D], the input of its last layer
  Tensor probabilities;  ///< [N, classes]
};

/// Features of all pictures of a source, each seen as in an evaluation of the run. `done` gets the number of
/// pictures that are done. Throws DataError for a picture that cannot be decoded, NumericError for features
/// that are not finite.
ClassifierFeatures classifier_features(const RunConfig& run, const ImageModel& model,
                                       const PictureSourcePtr& pictures,
                                       FunctionRef<void(std::int64_t)> done);

}  // namespace moh
