#include "train/families/diffusion/diffusion_task.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "models/active_heads.h"
#include "train/families/diffusion/diffusion_evaluation.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/families/diffusion/sampling/training_samples.h"
#include "train/trainer/task/data/place.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

DiffusionTask::DiffusionTask(const RunConfig& run, std::shared_ptr<const DiffusionData> data,
                             std::unique_ptr<Dit> model)
    : config_(run),
      run_(diffusion_run(config_)),
      batch_size_(run.train.batch_size),
      accumulate_(run.train.accumulate),
      workers_(run_.data.workers > 0 ? static_cast<int>(run_.data.workers) : num_threads()),
      data_(std::move(data)),
      model_(std::move(model)),
      samples_(run_.model, run_.diffusion),
      of_step_(counts_loads_first(run_.model.moh, accumulate_)) {}

std::string DiffusionTask::summary() const {
  char text[160];
  std::snprintf(text, sizeof text, "model: %s, %.2fM parameters, %lld layers, ",
                std::string(model_->family()).c_str(), static_cast<double>(count_parameters(*model_)) / 1e6,
                static_cast<long long>(run_.model.layers));
  return text + describe_active_heads(*model_) + " of their heads active, " +
         std::to_string(run_.model.classes) + " classes";
}

std::int64_t DiffusionTask::steps_per_epoch() const {
  if (!data_->epochs_are_known) return 0;
  const std::int64_t samples = training_starts(*data_, config_)->order().samples_per_epoch();
  return std::max<std::int64_t>(1, samples / (batch_size_ * accumulate_));
}

void DiffusionTask::seek(std::int64_t first_sample, const StepPart& part) {
  batches_.reset();
  starts_ = training_starts(*data_, config_);
  const auto first_of = [this, first_sample, part](std::int64_t index) {
    return part.first_of(index, first_sample, config_.train);
  };
  const auto make = [this, first_of](DiffusionBatch& batch, std::int64_t index, std::int64_t row) {
    const std::int64_t sample = first_of(index) + row;
    batch.labels.data<std::int64_t>()[row] = starts_->make(sample, NoisySamples::start_of(batch, row));
    samples_.make(batch, row, config_.random_seed(), sample);
  };
  batches_ = std::make_unique<BatchWorkers<DiffusionBatch>>(
      BatchWorkers<DiffusionBatch>::Steps{
          .begin = [this](std::int64_t) { return samples_.begin(batch_size_); },
          .samples = batch_size_,
          .make = make,
          .finish = [](DiffusionBatch&, std::int64_t) {}},
      0, kAhead, workers_);
}

StepSize DiffusionTask::start_step(std::int64_t count) {
  MOH_CHECK(batches_ != nullptr, "seek() comes first");
  return {count * batch_size_, count * batch_size_};
}

void DiffusionTask::load(std::int64_t index) {
  const DiffusionBatch batch = of_step_.at(index, [this] { return batches_->next(); });
  const Device device = model_->device();
  place(loaded_.targets.start, batch.targets.start, device);
  place(loaded_.targets.sample, batch.targets.sample, device);
  place(loaded_.targets.noise, batch.targets.noise, device);
  place(loaded_.targets.factors, batch.targets.factors, device);
  place(loaded_.steps, batch.steps, device);
  place(loaded_.labels, batch.labels, device);
}

DitOutput DiffusionTask::forward(Generator& generator) const {
  return model_->forward(loaded_.input(model_->dtype()),
                         {.training = true, .generator = &generator, .balance_loads = balance_loads_});
}

std::vector<Tensor> DiffusionTask::head_loads(Generator& generator) {
  return loads_of_layers(*model_, forward(generator).routing);
}

MicroBatchLoss DiffusionTask::loss(Generator& generator) {
  const DitOutput output = forward(generator);
  const double share = 1.0 / static_cast<double>(accumulate_);
  const DiffusionLoss loss = objective_loss(run_.diffusion.objective, output.prediction, loaded_.targets,
                                            static_cast<double>(batch_size_) / share);
  MicroBatchLoss result{loss.loss, loss.loss.value()};
  const Variable balance = mean_balance_loss(output.routing);
  result.total = add_routing_losses(loss.loss, balance, output.routing, run_.model.moh, share);
  result.numbers = routing_numbers(output.routing, {.balance = balance});
  result.numbers.push_back({.key = error_name(run_.diffusion.objective), .value = loss.squared_error});
  if (run_.diffusion.objective == DiffusionObjective::kNoise)
    result.numbers.push_back({.key = "bound_bits", .value = loss.bound});
  return result;
}

void DiffusionTask::end_step() {
  of_step_.clear();
  if (model_->device() == kCpu) loaded_ = {};
}

std::vector<std::pair<std::string, std::string>> DiffusionTask::remarks() const {
  return broken_remarks(*data_->broken_in_training, *data_->broken_in_validation);
}

std::int64_t DiffusionTask::most_evaluated() const {
  return run_.evaluated.most(data_->train.get() != nullptr, kUsualEvaluatedPictures);
}

double DiffusionTask::evaluation_samples() const {
  const std::int64_t held_out = data_->validation == nullptr ? 0 : data_->validation->size();
  return static_cast<double>(SpreadSubset(held_out, most_evaluated()).size() +
                             run_.evaluation_work().samples);
}

std::vector<std::pair<std::string, std::string>> DiffusionTask::identity() const {
  std::vector<std::pair<std::string, std::string>> identity = {identity_of(data_->class_names)};
  if (!data_->latents_of.empty()) identity.emplace_back(kAutoencoderHash, data_->latents_of);
  return identity;
}

std::optional<Evaluation> DiffusionTask::evaluate(StopEvaluation stop, Communicator& processes) {
  if (data_->validation == nullptr) return std::nullopt;  // nothing is held out
  const HeldOutOptions options{.batch_size = batch_size_,
                               .on_error = run_.data.on_error,
                               .most = most_evaluated(),
                               .labels_count = run_.diffusion.label_dropout < 1};
  const HeldOutSamples held_out(data_->validation, run_.model, run_.diffusion, options,
                                data_->broken_in_validation);
  std::optional<Evaluation> evaluation =
      evaluate_diffusion_model(*model_, held_out, workers_, stop, processes);
  const std::string broken = data_->broken_in_validation->describe();
  if (evaluation && !broken.empty()) evaluation->coverage += "; " + broken;
  return evaluation;
}

std::optional<std::string> DiffusionTask::draw_samples(StopEvaluation stop, Communicator& processes) {
  TrainingSamples sample = run_.sample;
  sample.options = options_for(run_, run_.preview_options(), /*usual_guidance=*/false);
  return draw_training_samples(*model_, data_->autoencoder.get(), sample, config_.random_seed(), stop,
                               processes);
}

}  // namespace moh
