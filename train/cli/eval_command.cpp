#include <cstdio>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/tasks/language_model.h"
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

}  // namespace

int eval(const EvalArgs& args) {
  const LanguageModel loaded = load_language_model(args.checkpoint, expanded(args.overrides));
  const RunConfig& config = loaded.config;
  set_num_threads(static_cast<int>(config.threads));
  const TokenSourcePtr tokens = open_held_out_text(config, *loaded.tokenizer);
  const EvaluationBatches batches(tokens, *loaded.tokenizer, config.data.sequence_length,
                                  config.train.batch_size);
  // A signal ends the process at once: there is nothing to save.
  const auto never = [] { return false; };
  const Evaluation evaluation =
      evaluate_language_model(*loaded.model, batches, config.eval.max_tokens, never).value();
  std::printf("checkpoint     %s\n", loaded.folder.c_str());
  std::printf("%-14s %.6f\n", "loss", evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) std::printf("%-14s %.6f\n", name.c_str(), value);
  return kDone;
}

}  // namespace moh::cli
