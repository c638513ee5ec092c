#pragma once

#include <memory>

#include "train/families/images/data/picture_batch.h"
#include "train/families/images/image_data.h"
#include "train/trainer/task/calibration.h"

namespace moh {

struct RunConfig;

/// The first training pictures of a run, in the order of its seed, seen as in an evaluation: neither cropped
/// at random nor mixed. A broken one counts for nothing, or ends the command, as data.on_error says.
class ImageCalibration final : public Calibration {
 public:
  ImageCalibration(const RunConfig& run, const ImageData& data);

  std::int64_t size() const override { return size_; }
  std::string_view input() const override { return "image"; }
  BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context) const override;
  Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const override;

 private:
  PictureBatch batch(std::int64_t index) const;

  EvaluationPictures pictures_;
  std::int64_t size_;
};

}  // namespace moh
