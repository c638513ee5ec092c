#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "models/module.h"
#include "models/vision/inception_blocks.h"

namespace moh {

/// Numbers of Inception for B pictures, in the dtype of its parameters.
struct InceptionOutput {
  Variable features;  ///< [B, 2048]: the mean over the last pixels (pool_3 of the graph), for FID
  Variable spatial;  ///< [B, 17 * 17 * 7]: the first seven channels of mixed_6/conv, pixel by pixel, for sFID
  Variable logits;   ///< [B, 1008]: of the classes without their bias, for the Inception Score
};

/// The network of inception_blocks(), for inference: a batch normalisation is part of its convolution, which
/// has parameters NAME.weight [out, in, kh, kw] and NAME.bias [out]; the classes have fc.weight [1008, 2048].
class Inception : public Module {
 public:
  static constexpr std::int64_t kSide = 299, kFeatures = 2048, kClasses = 1008, kSpatialChannels = 7;

  /// Parameters without values.
  explicit Inception(Placement placement);

  /// Pictures [B, 299, 299, 3] from -1 to 1 in the parameters' dtype. `visit` gets each block's name and
  /// output. Call it under NoGrad. Throws ShapeError, DTypeError, ValueError.
  InceptionOutput forward(const Variable& pictures,
                          FunctionRef<void(std::string_view, const Variable&)> visit) const;
  InceptionOutput forward(const Variable& pictures) const;

  /// The description of each convolution with its parameters.
  struct Convolution {
    InceptionConv conv;
    Variable weight, bias;
  };
  /// In the order of inception_blocks(), of a branch its chain before its fork.
  const std::vector<Convolution>& convolutions() const { return convolutions_; }
  const Variable& classes() const { return classes_; }

 private:
  std::vector<InceptionBlock> blocks_;
  std::vector<Convolution> convolutions_;
  Variable classes_;
};

}  // namespace moh
