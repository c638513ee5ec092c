#include "train/families/images/inception_features.h"

#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/parallel.h"
#include "train/families/images/evaluation_batches.h"
#include "train/families/images/feature_rows.h"

namespace moh {

namespace {

/// The pictures of a source in batches of what Inception sees.
class Batches {
 public:
  using Batch = Tensor;

  Batches(PictureSourcePtr source, PixelCenters centers, std::int64_t batch_size)
      : source_(std::move(source)), centers_(centers), batch_size_(batch_size) {}

  std::int64_t size() const { return (source_->size() + batch_size_ - 1) / batch_size_; }
  std::int64_t rows(std::int64_t batch) const {
    return std::min(batch_size_, source_->size() - batch * batch_size_);
  }
  Tensor begin(std::int64_t batch) const {
    return empty({rows(batch), Inception::kSide, Inception::kSide, Picture::kChannels}, DType::kFloat32);
  }
  void make(const Tensor& batch, std::int64_t number, std::int64_t row) const {
    thread_local std::vector<std::byte> bytes;
    const std::int64_t index = number * batch_size_ + row;
    source_->load(index, bytes);
    const Picture picture = source_->decode(index, bytes, [](PictureSize size) { return whole(size); });
    const Tensor to = batch.select(row);
    make_inception_picture(picture, centers_, to.span<float>());
  }
  static void finish(const Tensor& /*batch*/) {}

 private:
  PictureSourcePtr source_;
  PixelCenters centers_;
  std::int64_t batch_size_;
};

}  // namespace

void make_inception_picture(const Picture& picture, PixelCenters centers, std::span<float> to) {
  resize_bilinear(picture.bytes(), {picture.height(), picture.width()}, centers, to,
                  {Inception::kSide, Inception::kSide});
  for (float& x : to)
    x = centers == PixelCenters::kCorner ? (x - 128.0F) / 128.0F : 2.0F * (x / 255.0F) - 1.0F;
}

InceptionFeatures inception_features(const Inception& model, const PictureSourcePtr& pictures,
                                     PixelCenters centers, std::int64_t batch_size,
                                     FunctionRef<void(std::int64_t)> done) {
  const NoGrad no_grad;
  const Batches view(pictures, centers, batch_size);
  BatchWorkers<Tensor> batches = evaluation_batches(view, num_threads(), one_process());
  const Device device = model.classes().value().device();
  InceptionFeatures all;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < view.size(); ++i) {
    const Tensor batch = batches.next();
    const InceptionOutput output = model.forward(Variable(batch.to(device)));
    put_feature_rows(all.features, at, output.features, *pictures);
    put_feature_rows(all.spatial, at, output.spatial, *pictures);
    put_feature_rows(all.probabilities, at, output.logits, *pictures);
    at += batch.dim(0);
    done(at);
  }
  softmax_rows(all.probabilities);
  return all;
}

}  // namespace moh
