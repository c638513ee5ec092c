#include "train/tasks/language_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "train/data/corpus.h"
#include "train/metrics/logging.h"
#include "train/tasks/llama_from_config.h"

namespace moh {

namespace {

std::vector<std::string> as_strings(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

Corpus open_files(std::span<const std::string> inputs, const Tokenizer& tokenizer) {
  Corpus corpus = open_corpus(inputs, tokenizer);
  if (corpus.skipped.count() > 0) log_warning("data: skipped " + corpus.skipped.describe());
  return corpus;
}

/// The mean balance loss of the routed layers; undefined when there are none.
Variable mean_balance(const std::vector<LayerRouting>& routing) {
  Variable sum;
  std::int64_t layers = 0;
  for (const LayerRouting& layer : routing) {
    if (!layer.balance.defined()) continue;
    sum = sum.defined() ? add(sum, layer.balance) : layer.balance;
    ++layers;
  }
  return layers > 0 ? scale(sum, 1.0 / static_cast<double>(layers)) : Variable();
}

}  // namespace

LanguageData open_language_data(const DataConfig& config, std::int64_t vocab_size) {
  LanguageData data;
  data.tokenizer = make_tokenizer(name_of(config.tokenizer));
  if (data.tokenizer->vocab_size() > vocab_size) {
    throw ConfigError(error_message("model.vocab_size", "",
                                    "at least the " + std::to_string(data.tokenizer->vocab_size()) +
                                        " tokens of data.tokenizer " + std::string(data.tokenizer->name()),
                                    std::to_string(vocab_size)));
  }
  const Corpus train = open_files(as_strings(config.train), *data.tokenizer);
  const bool own_validation = !config.validation.empty();
  TokenSplit split = split_corpus(train, *data.tokenizer, own_validation ? 0.0 : config.validation_fraction);
  data.train = std::move(split.train);
  data.validation = std::move(split.validation);
  if (own_validation) data.validation = open_text(as_strings(config.validation), *data.tokenizer);
  const bool wanted = own_validation || config.validation_fraction > 0;
  if (wanted && data.validation->size() < 2) {
    throw DataError(error_message(own_validation ? "data.validation" : "data.validation_fraction",
                                  "held-out tokens", "2 or more", std::to_string(data.validation->size()),
                                  "give more text, or hold nothing out with data.validation_fraction: 0"));
  }
  return data;
}

TokenSourcePtr open_text(std::span<const std::string> inputs, const Tokenizer& tokenizer) {
  return split_corpus(open_files(inputs, tokenizer), tokenizer, 0.0).train;
}

TokenSourcePtr open_held_out_text(const RunConfig& config, const Tokenizer& tokenizer) {
  if (!config.data.validation.empty()) return open_text(as_strings(config.data.validation), tokenizer);
  TokenSourcePtr tokens = open_language_data(config.data, config.model.vocab_size).validation;
  if (tokens->size() < 2) {
    throw DataError(
        "data: this run held nothing out (data.validation_fraction is 0); name a text with data=PATH");
  }
  return tokens;
}

LanguageModelTask::LanguageModelTask(const RunConfig& config, LanguageData data)
    : data_(std::move(data)),
      model_(llama_config_of(config.model), {dtype_of_precision(config.precision), config.device}),
      batches_(data_.train, *data_.tokenizer, config.data.sequence_length,
               static_cast<std::uint64_t>(config.seed)),
      batch_size_(config.train.batch_size),
      accumulate_(config.train.accumulate),
      eval_tokens_(config.eval.max_tokens),
      balance_weight_(config.model.moh.balance_weight) {
  model_.initialise(static_cast<std::uint64_t>(config.seed));
}

/// Has the allocator keep memory for as many batches as can be alive at once. How many are depends on when
/// the prefetching thread runs; without this a late step might be the first to ask the system for one more.
void LanguageModelTask::reserve_batches() const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const Shape shape{batch_size_, batches_.sampler().sequence_length()};
  std::vector<Tensor> blocks;
  for (std::int64_t i = 0; i < 2 * (kPrefetchDepth + accumulate_); ++i) {  // tokens and targets
    blocks.push_back(empty(shape, DType::kInt64));
  }
}

void LanguageModelTask::seek(std::int64_t first_sample) {
  reserve_batches();
  prefetcher_ = std::make_unique<Prefetcher<TokenBatch>>(
      [this, first_sample](std::int64_t i) {
        return batches_.at(first_sample + i * batch_size_, batch_size_);
      },
      0, kPrefetchDepth);
}

StepSize LanguageModelTask::begin_step(std::int64_t count) {
  MOH_CHECK(prefetcher_ != nullptr, "seek() comes first");
  StepSize size;
  micro_batches_.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < micro_batches_.size(); ++i) {
    place(prefetcher_->next(), i);
    size.tokens += micro_batches_[i].tokens.numel();
    size.targets += micro_batches_[i].num_targets;
  }
  num_targets_ = size.targets;
  return size;
}

void LanguageModelTask::place(TokenBatch batch, std::size_t index) {
  TokenBatch& to = micro_batches_[index];
  if (model_.device() == kCpu) {
    to = std::move(batch);
    return;
  }
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  if (!to.tokens.defined()) {
    to.tokens = empty(batch.tokens.shape(), DType::kInt64, model_.device());
    to.targets = empty(batch.targets.shape(), DType::kInt64, model_.device());
  }
  to.tokens.copy_from(batch.tokens);
  to.targets.copy_from(batch.targets);
  to.num_targets = batch.num_targets;
}

MicroBatchLoss LanguageModelTask::loss(std::int64_t index, Generator& generator) {
  const TokenBatch& batch = micro_batches_.at(static_cast<std::size_t>(index));
  LlamaOutput output = model_.forward(batch.tokens, {.training = true, .generator = &generator});
  const Variable task_loss =
      cross_entropy(output.logits, batch.targets, {.normalizer = static_cast<double>(num_targets_)});
  MicroBatchLoss result{task_loss, task_loss.value(), {}};
  const Variable balance = mean_balance(output.routing);
  describe(output.routing, balance.defined());
  if (balance.defined()) result.numbers.push_back(balance.value());
  for (const LayerRouting& layer : output.routing) {
    if (layer.load.defined()) result.numbers.push_back(layer.load);
  }
  const double share = 1.0 / static_cast<double>(micro_batches_.size());
  if (balance.defined() && balance_weight_ > 0)
    result.total = add(task_loss, scale(balance, balance_weight_ * share));
  return result;
}

void LanguageModelTask::describe(const std::vector<LayerRouting>& routing, bool balanced) {
  balanced_ = balanced;
  load_widths_.clear();
  std::int64_t computed = 0, heads = 0;
  for (const LayerRouting& layer : routing) {
    load_widths_.push_back(layer.load.defined() ? static_cast<std::size_t>(layer.load.numel()) : 0);
    computed += layer.computed_heads;
    heads += layer.heads;
  }
  computed_share_ = heads > 0 ? static_cast<double>(computed) / static_cast<double>(heads) : 1.0;
}

void LanguageModelTask::end_step() {
  if (model_.device() == kCpu) micro_batches_.clear();
}

StepStatistics LanguageModelTask::statistics(const StepSize& size, std::int64_t count,
                                             std::span<const double> numbers) const {
  StepStatistics result;
  result.tokens = size.tokens;
  if (load_widths_.empty()) return result;
  result.activated_heads = computed_share_;
  for (const std::size_t width : load_widths_) result.head_load.emplace_back(width, 0.0F);
  const float share = 1.0F / static_cast<float>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (balanced_) {
      result.balance_loss =
          result.balance_loss.value_or(0.0) + 1.0 / static_cast<double>(count) * numbers.front();
      numbers = numbers.subspan(1);
    }
    for (std::vector<float>& load : result.head_load) {
      for (std::size_t e = 0; e < load.size(); ++e) load[e] += share * static_cast<float>(numbers[e]);
      numbers = numbers.subspan(load.size());
    }
  }
  return result;
}

std::optional<Evaluation> LanguageModelTask::evaluate(FunctionRef<bool()> stop) {
  if (data_.validation->size() == 0) return std::nullopt;  // nothing is held out
  const EvaluationBatches batches(data_.validation, *data_.tokenizer, batches_.sampler().sequence_length(),
                                  batch_size_);
  return evaluate_language_model(model_, batches, eval_tokens_, stop);
}

std::vector<std::pair<std::string, std::string>> LanguageModelTask::identity() const {
  return {{"tokenizer", std::string(data_.tokenizer->name())},
          {"tokenizer_hash", hash_text(data_.tokenizer->content_hash())}};
}

std::optional<Evaluation> evaluate_language_model(const Llama& model, const EvaluationBatches& batches,
                                                  std::int64_t max_tokens, FunctionRef<bool()> stop) {
  const NoGrad no_grad;
  double sum = 0;
  std::int64_t targets = 0, bytes = 0;
  for (std::int64_t i = 0; i < batches.size() && (max_tokens == 0 || targets < max_tokens); ++i) {
    if (stop()) return std::nullopt;
    const TokenBatch batch = batches.at(i);
    sum += cross_entropy(model.forward(batch.tokens).logits, batch.targets.to(model.device())).value().item();
    targets += batch.num_targets;
    bytes += batch.target_bytes;
  }
  Evaluation evaluation;
  evaluation.loss = sum / static_cast<double>(targets);
  evaluation.metrics = {{"perplexity", std::exp(evaluation.loss)},
                        {"bits_per_byte", sum / std::numbers::ln2 / static_cast<double>(bytes)}};
  return evaluation;
}

}  // namespace moh
