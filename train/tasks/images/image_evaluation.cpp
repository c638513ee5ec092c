#include "train/tasks/images/image_evaluation.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "train/tasks/images/class_details.h"
#include "train/tasks/images/evaluation_batches.h"

namespace moh {

namespace {

constexpr std::int64_t kFew = 5;  // of top-5

}  // namespace

std::int64_t rank_of(std::span<const float> logits, std::int64_t label) {
  const auto own = static_cast<std::size_t>(label);
  const float at = logits[own];
  std::int64_t before = 0;
  for (std::size_t j = 0; j < own; ++j) before += !(logits[j] < at);
  for (std::size_t j = own + 1; j < logits.size(); ++j) before += !(logits[j] <= at);
  return before;
}

ClassCounts::ClassCounts(std::int64_t classes)
    : classes_(classes),
      confusion_(static_cast<std::size_t>(classes * classes)),
      among_five_(static_cast<std::size_t>(classes)) {}

void ClassCounts::add(const Tensor& logits, const Tensor& labels) {
  MOH_CHECK(logits.dim(1) == classes_, "a logit for each class");
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.span<std::int64_t>()[static_cast<std::size_t>(i)];
    if (label == kIgnoredTarget) continue;
    const Tensor row = logits.select(i);
    const std::span<const float> values = row.span<float>();
    const std::int64_t rank = rank_of(values, label);
    ++total_;
    first_ += rank == 0;
    among_five_[static_cast<std::size_t>(label)] += rank < kFew;
    const auto predicted = rank == 0 ? label : std::ranges::max_element(values) - values.begin();
    ++confusion_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
}

void ClassCounts::add_of_all(Communicator& processes) {
  if (processes.alone()) return;
  std::vector<std::int64_t> all = {total_, first_};
  for (const std::vector<std::int64_t>* counts : {&confusion_, &among_five_})
    all.insert(all.end(), counts->begin(), counts->end());
  const Tensor sums = empty({std::ssize(all)}, DType::kInt64);
  std::ranges::copy(all, sums.data<std::int64_t>());
  processes.all_reduce(sums, ReduceOp::kSum);
  const std::int64_t* from = sums.data<std::int64_t>();
  total_ = *from++;
  first_ = *from++;
  for (std::vector<std::int64_t>* counts : {&confusion_, &among_five_}) {
    std::copy_n(from, counts->size(), counts->begin());
    from += counts->size();
  }
}

std::int64_t ClassCounts::of_class(std::int64_t label) const {
  const auto row = confusion_.begin() + label * classes_;
  return std::accumulate(row, row + classes_, std::int64_t{0});
}

double ClassCounts::top1() const {
  return static_cast<double>(first_) / static_cast<double>(total_);
}

double ClassCounts::top5() const {
  const auto among_five = std::accumulate(among_five_.begin(), among_five_.end(), std::int64_t{0});
  return static_cast<double>(among_five) / static_cast<double>(total_);
}

std::optional<Evaluation> evaluate_image_model(const ImageModel& model, const EvaluationPictures& data,
                                               int workers, StopEvaluation stop, Communicator& processes) {
  const NoGrad no_grad;
  const std::int64_t classes = std::ssize(data.source().class_names()), total = data.pictures().size();
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
      counts.add(logits.value().to(kCpu).to(DType::kFloat32), batch.labels);
    }
    add_in_order({&sum, 1}, {&loss, 1}, processes);
    done = std::min(done + data.rows(0) * processes.size(), total);
  }
  counts.add_of_all(processes);
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
  evaluation.details = class_details(std::move(counts), data.source().class_names());
  return evaluation;
}

}  // namespace moh
