#include "train/families/translation/translation_task.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "models/active_heads.h"
#include "ops/loss/smoothed_cross_entropy.h"
#include "train/families/language/language_run.h"
#include "train/families/translation/translation_evaluation.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

TranslationTask::TranslationTask(const RunConfig& run, std::shared_ptr<const TranslationData> data,
                                 std::unique_ptr<TranslationModel> model)
    : run_(translation_run(run)),
      seed_(run.random_seed()),
      train_(run.train),
      data_(std::move(data)),
      model_(std::move(model)),
      teacher_(run.init.distill) {}

std::string TranslationTask::summary() const {
  const TranslationConfig& c = model_->config();
  char text[160];
  std::snprintf(text, sizeof text, "model: %.2fM parameters, %lld + %lld layers, %lld heads of %lld, ",
                static_cast<double>(count_parameters(*model_)) / 1e6,
                static_cast<long long>(c.encoder_layers), static_cast<long long>(c.decoder_layers),
                static_cast<long long>(c.heads), static_cast<long long>(c.head_dim));
  return text + describe_active_heads(*model_) + " of them active";
}

const TrainingPairs& TranslationTask::training_pairs() const {
  if (!pairs_) pairs_.emplace(data_->train, run_.data.batch_tokens, seed_);
  return *pairs_;
}

std::int64_t TranslationTask::steps_per_epoch() const {
  if (data_->synthetic || data_->train == nullptr) return 0;
  return std::max<std::int64_t>(
      1, training_pairs().batches_per_epoch() / (train_.batch_size * train_.accumulate));
}

PairBatch TranslationTask::batch_at(std::int64_t first_sample) const {
  return make_pair_batch(*data_->train, training_pairs().at(first_sample, train_.batch_size), data_->marks);
}

void TranslationTask::seek(std::int64_t first_sample, const StepPart& part) {
  training_pairs();  // packed before threads read them
  const auto first_of = [this, first_sample, part](std::int64_t index) {
    return part.first_of(index, first_sample, train_);
  };
  // One thread, and a batch as one sample: packing takes far less time than a step. Its memory is known once
  // it is packed, so that only a dry run, in which no sample is made, takes it beforehand.
  ahead_ = std::make_unique<BatchWorkers<PairBatch>>(
      BatchWorkers<PairBatch>::Steps{
          .begin = [this, first_of](
                       std::int64_t index) { return dry_run() ? batch_at(first_of(index)) : PairBatch(); },
          .samples = 1,
          .make = [this, first_of](PairBatch& batch, std::int64_t index,
                                   std::int64_t) { batch = batch_at(first_of(index)); },
          .finish = [](PairBatch&, std::int64_t) {}},
      0, kAhead, /*threads=*/1, ThreadUse{"data"});
}

StepSize TranslationTask::start_step(std::int64_t count) {
  MOH_CHECK(ahead_ != nullptr, "seek() comes first");
  StepSize size;
  for (std::int64_t i = 0; i < count; ++i) {
    micro_batches_.push_back(ahead_->next());
    size.targets += micro_batches_.back().num_targets;
  }
  size.items = size.targets;
  return size;
}

void TranslationTask::set_targets(std::int64_t targets) {
  normalizer_ = static_cast<double>(targets);
}

void TranslationTask::load(std::int64_t index) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const PairBatch& batch = micro_batches_.at(static_cast<std::size_t>(index));
  loaded_ = {};  // before its successor is allocated
  loaded_ = {batch.pairs.to(model_->device()), batch.targets.to(model_->device()), batch.num_targets};
}

ForwardContext TranslationTask::training_context(Generator& generator) const {
  return {.training = true, .generator = &generator, .balance_loads = balance_loads_};
}

std::vector<Tensor> TranslationTask::head_loads(Generator& generator) {
  return loads_of_layers(*model_, model_->forward(loaded_.pairs, training_context(generator)).routing);
}

MicroBatchLoss TranslationTask::loss(Generator& generator) {
  const ForwardContext context = training_context(generator);
  const Tensor teacher_logits = teacher_.logits(*model_, loaded_.pairs, context);
  const TranslationModel::Output output = model_->forward(loaded_.pairs, context);
  const SmoothedLoss task_loss = smoothed_cross_entropy(
      output.logits, loaded_.targets, {.smoothing = run_.label_smoothing, .normalizer = normalizer_});
  const Variable divergence =
      teacher_.divergence(output.logits, teacher_logits, loaded_.targets, normalizer_);
  MicroBatchLoss result{task_loss.loss, task_loss.loss.value()};
  const Variable balance = mean_balance_loss(output.routing);
  result.numbers = routing_numbers(output.routing, {.balance = balance, .distill = divergence});
  result.numbers.push_back({.key = "nll", .kind = NumberKind::kSum, .value = task_loss.nll});
  result.total = add_routing_losses(teacher_.added(task_loss.loss, divergence), balance, output.routing,
                                    run_.model.moh, 1.0 / static_cast<double>(train_.accumulate));
  return result;
}

void TranslationTask::run_first_batch(AttentionObserver& observer) {
  const NoGrad no_grad;
  model_->forward(batch_at(0).pairs.to(model_->device()), {.observer = &observer});
}

void TranslationTask::end_step() {
  micro_batches_.clear();
  loaded_ = {};
}

HeldOutPairs TranslationTask::held_out_pairs() const {
  const bool trains = data_->train != nullptr;
  return {data_->validation, run_.data.batch_tokens, run_.evaluated.most(trains, kUsualEvaluatedTokens)};
}

double TranslationTask::evaluation_samples() const {
  return data_->validation == nullptr ? 0 : static_cast<double>(held_out_pairs().size());
}

std::optional<Evaluation> TranslationTask::evaluate(StopEvaluation stop, Communicator& processes) {
  if (data_->validation == nullptr) return std::nullopt;  // nothing is held out
  return evaluate_translation_model(*model_, held_out_pairs(), data_->marks, run_.label_smoothing, stop,
                                    processes);
}

std::vector<std::pair<std::string, std::string>> TranslationTask::identity() const {
  const Tokenizer& tokenizer = *data_->tokenizers.source;  // stands for both
  return {{"tokenizer", std::string(tokenizer.name())},
          {std::string(kTokenizerHash), hash_text(tokenizer.content_hash())}};
}

std::vector<std::pair<std::string, std::string>> TranslationTask::files() const {
  std::vector<std::pair<std::string, std::string>> files;
  for (const TokenizerFile& file : data_->tokenizers.source->files())
    files.emplace_back(file.name, file.contents);
  return files;
}

}  // namespace moh
