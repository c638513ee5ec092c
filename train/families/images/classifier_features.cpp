#include "train/families/images/classifier_features.h"

#include "autograd/node.h"
#include "core/parallel.h"
#include "train/families/images/evaluation_batches.h"
#include "train/families/images/feature_rows.h"
#include "train/families/images/image_data.h"
#include "train/trainer/config/run_config.h"

namespace moh {

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
    put_feature_rows(all.features, at, output.features, *pictures);
    put_feature_rows(all.probabilities, at, output.logits, *pictures);
    at += batch.pictures.dim(0);
    done(at);
  }
  softmax_rows(all.probabilities);
  return all;
}

}  // namespace moh
