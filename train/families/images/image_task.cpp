#include "train/families/images/image_task.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "core/parallel.h"
#include "models/active_heads.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/mean_of.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/soft_cross_entropy.h"
#include "ops/loss/top1.h"
#include "train/families/images/image_evaluation.h"
#include "train/trainer/task/data/place.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

namespace {}  // namespace

ImageTask::ImageTask(const RunConfig& run, std::shared_ptr<const ImageData> data,
                     std::unique_ptr<ImageModel> model)
    : config_(run),
      run_(image_run(config_)),
      batch_size_(run.train.batch_size),
      accumulate_(run.train.accumulate),
      workers_(run_.data.workers > 0 ? static_cast<int>(run_.data.workers) : num_threads()),
      data_(std::move(data)),
      model_(std::move(model)),
      teacher_(run.init.distill),
      of_step_(counts_loads_first(run_.model.moh, accumulate_)) {}

std::string ImageTask::summary() const {
  char text[160];
  std::snprintf(text, sizeof text, "model: %s, %.2fM parameters, %lld layers, ",
                std::string(model_->family()).c_str(), static_cast<double>(count_parameters(*model_)) / 1e6,
                static_cast<long long>(layers_of(run_.model)));
  return text + describe_active_heads(*model_) + " of their heads active, " +
         std::to_string(run_.model.classes) + " classes";
}

std::int64_t ImageTask::steps_per_epoch() const {
  if (!data_->epochs_are_known) return 0;
  return std::max<std::int64_t>(
      1, sample_order(*data_, config_).samples_per_epoch() / (batch_size_ * accumulate_));
}

void ImageTask::seek(std::int64_t first_sample, const StepPart& part) {
  batches_.reset();
  pictures_.emplace(training_pictures(*data_, config_));
  const auto first_of = [this, first_sample, part](std::int64_t index) {
    return part.first_of(index, first_sample, config_.train);
  };
  batches_ = std::make_unique<BatchWorkers<PictureBatch>>(
      BatchWorkers<PictureBatch>::Steps{
          .begin = [this](std::int64_t) { return pictures_->begin(batch_size_); },
          .samples = batch_size_,
          .make = [this, first_of](PictureBatch& batch, std::int64_t index,
                                   std::int64_t row) { pictures_->make(batch, first_of(index), row); },
          .finish = [this, first_of](PictureBatch& batch,
                                     std::int64_t index) { pictures_->finish(batch, first_of(index)); }},
      0, kAhead, workers_);
}

StepSize ImageTask::start_step(std::int64_t count) {
  MOH_CHECK(batches_ != nullptr, "seek() comes first");
  return {count * batch_size_, count * batch_size_};
}

void ImageTask::load(std::int64_t index) {
  const PictureBatch batch = of_step_.at(index, [this] { return batches_->next(); });
  place(loaded_.pictures, batch.pictures, model_->device());
  place(loaded_.targets, batch.targets, model_->device());
}

ImageOutput ImageTask::forward(const Variable& pictures, Generator& generator) const {
  return model_->forward(pictures,
                         {.training = true, .generator = &generator, .balance_loads = balance_loads_});
}

std::vector<Tensor> ImageTask::head_loads(Generator& generator) {
  const Variable pictures(loaded_.pictures.to(model_->dtype()));
  return loads_of_layers(*model_, forward(pictures, generator).routing);
}

MicroBatchLoss ImageTask::loss(Generator& generator) {
  const Variable pictures(loaded_.pictures.to(model_->dtype()));
  const Tensor teacher_logits = teacher_.logits(*model_, pictures);
  const ImageOutput output = forward(pictures, generator);
  const double share = 1.0 / static_cast<double>(accumulate_);
  const double normalizer = static_cast<double>(batch_size_) / share;
  const Variable task_loss = soft_cross_entropy(output.logits, loaded_.targets, normalizer);
  const Variable divergence = teacher_.divergence(output.logits, teacher_logits, Tensor(), normalizer);
  MicroBatchLoss result{task_loss, task_loss.value()};
  const Variable balance = mean_balance_loss(output.routing),
                 experts = output.expert_balances.empty() ? Variable() : mean_of(output.expert_balances);
  result.total = add_routing_losses(teacher_.added(task_loss, divergence), balance, output.routing,
                                    run_.model.moh, share);
  if (experts.defined()) result.total = add(result.total, scale(experts, kExpertBalanceWeight * share));
  result.numbers = routing_numbers(output.routing, {balance, experts, divergence});
  const Tensor top1 = top1_share(output.logits.value(), loaded_.targets);
  result.numbers.push_back({.key = "train_top1", .value = top1, .label = "top1"});
  return result;
}

void ImageTask::run_first_batch(AttentionObserver& observer) {
  const NoGrad no_grad;
  PictureBatch batch = pictures_->begin(batch_size_);
  for (std::int64_t row = 0; row < batch_size_; ++row) pictures_->make(batch, 0, row);
  pictures_->finish(batch, 0);
  model_->forward(Variable(batch.pictures.to(model_->dtype()).to(model_->device())), {.observer = &observer});
}

void ImageTask::end_step() {
  of_step_.clear();
  if (model_->device() == kCpu) loaded_ = {};
}

std::vector<std::pair<std::string, std::string>> ImageTask::remarks() const {
  return broken_remarks(*data_->broken_in_training, *data_->broken_in_validation);
}

std::int64_t ImageTask::most_evaluated() const {
  return run_.evaluated.most(data_->train != nullptr, kUsualEvaluatedPictures);
}

double ImageTask::evaluation_samples() const {
  if (data_->validation == nullptr) return 0;
  return static_cast<double>(SpreadSubset(data_->validation->size(), most_evaluated()).size());
}

std::optional<Evaluation> ImageTask::evaluate(StopEvaluation stop, Communicator& processes) {
  if (data_->validation == nullptr) return std::nullopt;  // nothing is held out
  const EvaluationPictures pictures(data_->validation, data_->view, batch_size_, run_.data.on_error,
                                    data_->broken_in_validation, most_evaluated());
  std::optional<Evaluation> evaluation = evaluate_image_model(*model_, pictures, workers_, stop, processes);
  const std::string broken = data_->broken_in_validation->describe();
  if (evaluation && !broken.empty()) evaluation->coverage += "; " + broken;
  return evaluation;
}

}  // namespace moh
