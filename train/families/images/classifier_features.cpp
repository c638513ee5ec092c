#include "train/families/images/classifier_features.h"

#include <cmath>

#include "autograd/node.h"
#include "core/error.h"
#include "core/parallel.h"
#include "train/families/images/evaluation_batches.h"
#include "train/families/images/image_data.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

void softmax_rows(const Tensor& logits) {
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    const Tensor own = logits.select(i);
    const std::span<double> row = own.span<double>();
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (double& x : row) sum += x = std::exp(x - top);
    for (double& x : row) x /= sum;
  }
}

}  // namespace

ClassifierFeatures classifier_features(const RunConfig& run, const ImageModel& model,
                                       const PictureSourcePtr& pictures,
                                       FunctionRef<void(std::int64_t)> done) {
  const NoGrad no_grad;
  const ImageRun& own = image_run(run);
  const EvaluationPictures view(pictures, evaluation_view_of(own.settled_data()), run.train.batch_size,
                                OnError::kStop, nullptr);
  BatchWorkers<PictureBatch> batches = evaluation_batches(view, num_threads(), one_process());
  ClassifierFeatures all;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < view.size(); ++i) {
    const PictureBatch batch = batches.next();
    const ImageOutput output = model.forward(Variable(batch.pictures.to(model.dtype()).to(model.device())));
    const auto add = [&](Tensor& to, const Variable& rows) {
      const Tensor values = rows.value().to(kCpu).to(DType::kFloat64);
      if (!values.all_finite())
        throw NumericError(error_message("features", pictures->name(at), "finite numbers", "others"));
      if (!to.defined()) to = empty({pictures->size(), values.dim(1)}, DType::kFloat64);
      to.slice(at, at + values.dim(0)).copy_from(values);
    };
    add(all.features, output.features);
    add(all.probabilities, output.logits);
    at += batch.pictures.dim(0);
    done(at);
  }
  softmax_rows(all.probabilities);
  return all;
}

}  // namespace moh
