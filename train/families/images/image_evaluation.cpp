#include "train/families/images/image_evaluation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/families/images/class_details.h"
#include "train/families/images/evaluation_batches.h"

namespace moh {

namespace {

constexpr std::int64_t kFew = 5;  // of top-5

}  // namespace

std::optional<Evaluation> evaluate_image_model(const ImageModel& model, const EvaluationPictures& data,
                                               int workers, StopEvaluation stop, Communicator& processes) {
  const NoGrad no_grad;
  const std::int64_t classes = data.source().num_classes(), total = data.pictures().size();
  BatchWorkers<PictureBatch> batches = evaluation_batches(data, workers, processes);
  ClassCounts counts(classes);
  double sum = 0;
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < data.size(); first += processes.size()) {
    if (stop({done, total})) return std::nullopt;
    double loss = 0;
    if (first + processes.rank() < data.size()) {
      const PictureBatch batch = batches.next();
      const Variable logits =
          model.forward(Variable(batch.pictures.to(model.dtype()).to(model.device()))).logits;
      loss = cross_entropy(logits, batch.labels.to(model.device()), {.keep_logits = true}).value().item();
      const Tensor on_host = logits.value().to(kCpu).to(DType::kFloat32);
      if (!dry_run()) counts.add(on_host, batch.labels);
    }
    add_in_order({&sum, 1}, {&loss, 1}, processes);
    done = std::min(done + data.rows(0) * processes.size(), total);
  }
  counts.add_of_all(processes);
  if (dry_run()) return Evaluation{};
  if (counts.total() == 0)
    throw DataError("evaluation: none of the " + std::to_string(total) + " pictures can be decoded");
  Evaluation evaluation;
  evaluation.score = counts.top1();
  if (classes > kFew) evaluation.metrics.emplace_back("top5", counts.top5());
  evaluation.metrics.emplace_back("loss", sum / static_cast<double>(counts.total()));
  evaluation.evaluated = counts.total();
  evaluation.held_out = data.pictures().total();
  evaluation.coverage =
      std::to_string(evaluation.evaluated) + " of " + std::to_string(evaluation.held_out) + " images";
  evaluation.details = class_details(std::move(counts), data.source_pointer());
  return evaluation;
}

}  // namespace moh
