#include "train/families/language/language_task.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "models/active_heads.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "train/base/io/durable_file.h"
#include "train/base/log/format.h"
#include "train/families/language/generate_text.h"
#include "train/trainer/task/data/place.h"
#include "train/trainer/task/routing_numbers.h"

namespace moh {

namespace {

/// The trained part of a model with adapters; empty without.
std::string describe_adapters(const Llama& model) {
  const std::int64_t rank = model.config().lora.rank;
  if (rank == 0) return "";
  std::int64_t trained = 0;
  for (const NamedParameter& p : model.parameters())
    if (p.variable.requires_grad()) trained += p.variable.numel();
  return "; adapters of rank " + std::to_string(rank) + ": " +
         format_fixed(static_cast<double>(trained) / 1e6, 2) + "M parameters are trained";
}

}  // namespace

LanguageTask::LanguageTask(const RunConfig& run, std::shared_ptr<const LanguageData> data,
                           std::unique_ptr<Llama> model)
    : run_(language_run(run)),
      seed_(run.random_seed()),
      train_(run.train),
      data_(std::move(data)),
      model_(std::move(model)),
      teacher_(run.init.distill) {}

std::string LanguageTask::summary() const {
  const LlamaConfig& c = model_->config();
  char text[160];
  std::snprintf(text, sizeof text, "model: %.2fM parameters, %lld layers, %lld heads of %lld, ",
                static_cast<double>(count_parameters(*model_)) / 1e6, static_cast<long long>(c.layers),
                static_cast<long long>(c.heads), static_cast<long long>(c.head_dim));
  return text + describe_active_heads(*model_) + " of them active" + describe_adapters(*model_);
}

const TrainingBatches& LanguageTask::training_batches() {
  if (!batches_) batches_.emplace(data_->train, *data_->tokenizer, batch_options(run_), seed_);
  return *batches_;
}

/// Makes the allocator cache memory for as many batches as can exist at once. Their number depends on the
/// timing of the thread that makes them; otherwise a late step might have to allocate from the system.
void LanguageTask::reserve_batches() {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const Shape shape{train_.batch_size, run_.data.sequence_length};
  std::vector<Tensor> blocks;
  for (std::int64_t i = 0; i < 2 * (kAhead + 1 + train_.accumulate); ++i) {  // tokens and targets
    blocks.push_back(empty(shape, DType::kInt64));
    if (run_.data.document_mask && i % 2 == 0) blocks.push_back(empty(shape, DType::kInt32));
  }
}

void LanguageTask::seek(std::int64_t first_sample, const StepPart& part) {
  const TrainingBatches& batches = training_batches();
  reserve_batches();
  next_sample_ = first_sample;
  // One thread, and a batch as one sample: reading tokens takes far less time than a step.
  ahead_ = std::make_unique<BatchWorkers<TokenBatch>>(
      BatchWorkers<TokenBatch>::Steps{
          .begin = [this, &batches](std::int64_t) { return batches.begin(train_.batch_size); },
          .samples = 1,
          .make = [this, &batches, first_sample, part](
                      TokenBatch& batch, std::int64_t index,
                      std::int64_t) { batches.fill(batch, part.first_of(index, first_sample, train_)); },
          .finish = [](TokenBatch&, std::int64_t) {}},
      0, kAhead, /*threads=*/1, ThreadUse{"data"});
}

StepSize LanguageTask::start_step(std::int64_t count) {
  MOH_CHECK(ahead_ != nullptr, "seek() comes first");
  StepSize size;
  micro_batches_.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < micro_batches_.size(); ++i) {
    micro_batches_[i] = ahead_->next();
    size.items += micro_batches_[i].tokens.numel();
    size.targets += micro_batches_[i].num_targets;
  }
  next_sample_ += train_.batch_size * train_.accumulate;
  return size;
}

void LanguageTask::set_targets(std::int64_t targets) {
  // With documents of one token, or within a long prompt, a step may have no target.
  const auto number = static_cast<double>(std::max<std::int64_t>(targets, 1));
  place(num_targets_, full({}, number, DType::kFloat64), model_->device());
  normalizer_ = model_->device() == kCpu ? LossDivisor(number) : LossDivisor(num_targets_);
}

void LanguageTask::load(std::int64_t index) {
  const TokenBatch& batch = micro_batches_.at(static_cast<std::size_t>(index));
  place(loaded_.tokens, batch.tokens, model_->device());
  place(loaded_.targets, batch.targets, model_->device());
  place(loaded_.document_starts, batch.document_starts, model_->device());
  loaded_.num_targets = batch.num_targets;
}

ForwardContext LanguageTask::training_context(Generator& generator) const {
  return context_of(*model_, loaded_, run_.data.reset_positions,
                    {.training = true, .generator = &generator, .balance_loads = balance_loads_});
}

std::vector<Tensor> LanguageTask::head_loads(Generator& generator) {
  return loads_of_layers(*model_, model_->forward(loaded_.tokens, training_context(generator)).routing);
}

MicroBatchLoss LanguageTask::loss(Generator& generator) {
  const ForwardContext context = training_context(generator);
  const Tensor teacher_logits = teacher_.logits(*model_, loaded_.tokens, context);
  const LlamaOutput output = model_->forward(loaded_.tokens, context);
  const Variable task_loss = cross_entropy(output.logits, loaded_.targets, {.normalizer = normalizer_});
  const Variable divergence =
      teacher_.divergence(output.logits, teacher_logits, loaded_.targets, normalizer_);
  MicroBatchLoss result{task_loss, task_loss.value()};
  const Variable balance = mean_balance_loss(output.routing);
  result.numbers = routing_numbers(output.routing, {.balance = balance, .distill = divergence});
  result.total = add_routing_losses(teacher_.added(task_loss, divergence), balance, output.routing,
                                    run_.model.moh, 1.0 / static_cast<double>(train_.accumulate));
  return result;
}

void LanguageTask::run_first_batch(AttentionObserver& observer) {
  const NoGrad no_grad;
  const TokenBatch batch = training_batches().at(0, train_.batch_size);
  model_->forward(batch.tokens.to(model_->device()),
                  context_of(*model_, batch, run_.data.reset_positions, {.observer = &observer}));
}

void LanguageTask::end_step() {
  micro_batches_.clear();
  if (model_->device() == kCpu) loaded_ = {};
}

EvaluationLimits LanguageTask::evaluation_limits() const {
  const bool trains = !data_->train.empty();
  return {train_.batch_size, run_.evaluated.most(trains, kUsualEvaluatedTokens), run_.data.reset_positions};
}

double LanguageTask::evaluation_samples() const {
  const std::int64_t tokens =
      evaluated_tokens(data_->validation, *data_->tokenizer, batch_options(run_), evaluation_limits());
  return static_cast<double>(tokens) / static_cast<double>(run_.data.sequence_length);
}

std::optional<Evaluation> LanguageTask::evaluate(StopEvaluation stop, Communicator& processes) {
  if (data_->validation.empty()) return std::nullopt;  // nothing is held out
  std::optional<Evaluation> evaluation =
      evaluate_language_model(*model_, data_->validation, *data_->tokenizer, batch_options(run_),
                              evaluation_limits(), stop, processes);
  if (!evaluation) return std::nullopt;
  for (const auto& [name, value] : evaluation->metrics) last_loss_[name] = value;
  return evaluation;
}

std::vector<std::pair<std::string, std::string>> LanguageTask::remarks() const {
  std::vector<std::pair<std::string, std::string>> remarks;
  if (!batches_ || batches_->sources()[0].name.empty()) return remarks;
  for (std::size_t i = 0; i < batches_->sources().size(); ++i) {
    const std::string& name = batches_->sources()[i].name;
    const auto rows = static_cast<double>(batches_->schedule().count(i, next_sample_));
    const auto all = static_cast<double>(std::max<std::int64_t>(next_sample_, 1));
    std::string text = format_fixed(rows / static_cast<double>(batches_->sampler(i).windows_per_epoch()), 2) +
                       " epochs, " + format_fixed(100 * rows / all, 2) + "% of the rows";
    if (const auto loss = last_loss_.find("loss/" + name); loss != last_loss_.end())
      text += ", held-out loss " + format_fixed(loss->second, 4);
    remarks.emplace_back("source " + name, std::move(text));
  }
  return remarks;
}

std::vector<std::pair<std::string, std::string>> LanguageTask::identity() const {
  return {{"tokenizer", std::string(data_->tokenizer->name())},
          {std::string(kTokenizerHash), hash_text(data_->tokenizer->content_hash())}};
}

std::vector<std::pair<std::string, std::string>> LanguageTask::files() const {
  std::vector<std::pair<std::string, std::string>> files;
  for (const TokenizerFile& file : data_->tokenizer->files()) files.emplace_back(file.name, file.contents);
  return files;
}

bool LanguageTask::finish(const std::filesystem::path& run_folder, PrintText print,
                          FunctionRef<bool()> stop) const {
  const SampleConfig& sample = run_.sample;
  if (sample.options.tokens == 0) return true;
  GenerateOptions options = sample.options;
  options.seed = seed_;
  std::string text = sample.prompt;
  const auto add = [&](std::string_view piece) { text += piece; };
  const TextEnd end = generate_text(*model_, *data_->tokenizer, sample.prompt, options, add, stop).end;
  if (end == TextEnd::kInterrupted) return false;
  if (!run_folder.empty()) write_file_durably(run_folder / "sample.txt", text + "\n");
  const bool by_model = end == TextEnd::kEndOfDocument;
  print("--- sample ---\n" + text + "\n" + (by_model ? "--- ended by the model ---" : "--------------"));
  return true;
}

LanguageCalibration::LanguageCalibration(std::vector<TextSource> text, const Tokenizer& tokenizer,
                                         const RunConfig& run)
    : batches_(std::move(text), tokenizer, batch_options(language_run(run)), run.random_seed()),
      batch_size_(run.train.batch_size),
      size_(run.init.moh.calibration.batches),
      reset_positions_(language_run(run).data.reset_positions) {}

Calibration::BatchLoss LanguageCalibration::loss(const Model& model, std::int64_t index,
                                                 const ForwardContext& context) const {
  const TokenBatch text = batch(index);
  return {cross_entropy(logits_of(model, text, context), text.targets.to(model.device())), text.num_targets};
}

Variable LanguageCalibration::logits(const Model& model, std::int64_t index,
                                     const ForwardContext& context) const {
  return logits_of(model, batch(index), context);
}

Variable LanguageCalibration::logits_of(const Model& model, const TokenBatch& text,
                                        const ForwardContext& context) const {
  const auto& llama = dynamic_cast<const Llama&>(model);
  return llama.forward(text.tokens, context_of(llama, text, reset_positions_, context)).logits;
}

}  // namespace moh
