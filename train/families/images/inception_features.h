#pragma once

#include "core/function_ref.h"
#include "core/tensor.h"
#include "models/vision/inception.h"
#include "models/vision/resize_bilinear.h"
#include "train/families/images/data/picture_source.h"

namespace moh {

/// Results of Inception for N pictures, float64 on the CPU.
struct InceptionFeatures {
  Tensor features;       ///< [N, 2048]
  Tensor spatial;        ///< [N, 2023]
  Tensor probabilities;  ///< [N, 1008], the softmax of the logits without bias
};

/// A picture as Inception sees it, [299, 299, 3]: resized without antialiasing, and from -1 to 1, of which
/// the byte 128 is the middle for kCorner (the graph of TensorFlow and guided-diffusion) and 127.5 for kHalf
/// (pytorch-fid).
void make_inception_picture(const Picture& picture, PixelCenters centers, std::span<float> to);

/// Features of all pictures of a source, in batches of `batch_size`, which bounds the memory beside the
/// result. Threads resize a batch while another is computed. `done` gets the number of pictures that are
/// done. Throws DataError for a picture that cannot be decoded, NumericError for features that are not
/// finite.
InceptionFeatures inception_features(const Inception& model, const PictureSourcePtr& pictures,
                                     PixelCenters centers, std::int64_t batch_size,
                                     FunctionRef<void(std::int64_t)> done);

}  // namespace moh
