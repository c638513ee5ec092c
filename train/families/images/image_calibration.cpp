#include "train/families/images/image_calibration.h"

#include <utility>

#include "models/vision/image_model.h"
#include "ops/loss/cross_entropy.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

/// The pictures of a source in the order of a training, epoch after epoch.
class OrderedPictures final : public PictureSource {
 public:
  OrderedPictures(PictureSourcePtr source, const SampleOrder& order)
      : source_(std::move(source)), order_(order) {}

  std::int64_t size() const override { return std::int64_t{1} << 48; }  // there is always another epoch
  std::int64_t label(std::int64_t index) const override { return source_->label(order_.picture_of(index)); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  std::int64_t num_classes() const override { return source_->num_classes(); }
  std::string name(std::int64_t index) const override { return source_->name(order_.picture_of(index)); }
  std::string describe_contents() const override { return source_->describe_contents(); }
  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    source_->load(order_.picture_of(index), bytes);
  }
  Picture decode(std::int64_t index, const std::vector<std::byte>& bytes,
                 ChooseRegion region) const override {
    return source_->decode(order_.picture_of(index), bytes, region);
  }

 private:
  PictureSourcePtr source_;
  SampleOrder order_;
};

PictureSourcePtr ordered(const RunConfig& run, const ImageData& data) {
  const SampleOrder order(data.train->size(), run.train.batch_size, run.random_seed());
  return std::make_shared<OrderedPictures>(data.train, order);
}

Variable logits_of(const Model& model, const PictureBatch& batch, const ForwardContext& context) {
  const Tensor pictures = batch.pictures.to(model.dtype()).to(model.device());
  return dynamic_cast<const ImageModel&>(model).forward(Variable(pictures), context).logits;
}

}  // namespace

ImageCalibration::ImageCalibration(const RunConfig& run, const ImageData& data)
    : pictures_(ordered(run, data), data.view, run.train.batch_size, image_run(run).data.on_error,
                data.broken_in_training),
      size_(run.init.moh.calibration.batches) {}

PictureBatch ImageCalibration::batch(std::int64_t index) const {
  PictureBatch batch = pictures_.begin(index);
  for (std::int64_t row = 0; row < pictures_.rows(index); ++row) pictures_.make(batch, index, row);
  EvaluationPictures::finish(batch);
  return batch;
}

Calibration::BatchLoss ImageCalibration::loss(const Model& model, std::int64_t index,
                                              const ForwardContext& context) const {
  const PictureBatch images = batch(index);
  return {cross_entropy(logits_of(model, images, context), images.labels.to(model.device())),
          std::max<std::int64_t>(images.num_pictures, 1)};
}

Variable ImageCalibration::logits(const Model& model, std::int64_t index,
                                  const ForwardContext& context) const {
  return logits_of(model, batch(index), context);
}

}  // namespace moh
