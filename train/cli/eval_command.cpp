#include <cstdio>

#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/data/corpus.h"
#include "train/tasks/language_model.h"
#include "train/tasks/llama_from_config.h"
#include "train/tasks/load_language_model.h"

namespace moh::cli {

namespace {

/// `data=PATH` is short for `data.validation=PATH`.
std::vector<std::string> expanded(std::vector<std::string> overrides) {
  for (std::string& text : overrides) {
    if (text.starts_with("data=")) text.insert(4, ".validation");
  }
  return overrides;
}

/// The held-out tokens, without opening training files that are not needed.
TokenSourcePtr open_validation(DataConfig data, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  if (data.validation.empty()) return open_language_data(data, vocab_size).validation;
  const std::vector<std::string> inputs(data.validation.begin(), data.validation.end());
  return split_corpus(open_corpus(inputs, tokenizer), tokenizer, 0.0).train;
}

}  // namespace

int eval(const EvalArgs& args) {
  const LanguageModel loaded = load_language_model(args.checkpoint, expanded(args.overrides));
  const RunConfig& config = loaded.config;
  set_num_threads(static_cast<int>(config.threads));
  const TokenSourcePtr tokens = open_validation(config.data, *loaded.tokenizer, config.model.vocab_size);
  if (config.data.validation.empty() && tokens->size() < 2) {
    throw DataError(
        "eval: this run held nothing out (data.validation_fraction is 0); name a text with data=PATH");
  }
  const EvaluationBatches batches(tokens, *loaded.tokenizer, config.data.sequence_length,
                                  config.train.batch_size);
  const Evaluation evaluation = evaluate_language_model(*loaded.model, batches, config.eval.max_tokens);
  std::printf("checkpoint     %s\n", loaded.folder.c_str());
  std::printf("%-14s %.6f\n", "loss", evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) std::printf("%-14s %.6f\n", name.c_str(), value);
  return kDone;
}

}  // namespace moh::cli
