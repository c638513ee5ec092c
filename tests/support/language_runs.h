#pragma once

#include "train/families/language/language_family.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/load_run_config.h"

namespace moh {

/// A language model's run with all defaults.
inline RunConfig default_language_run() {
  return default_run(language_family().defaults());
}

/// The description of the run's model.
inline LlamaConfig& model_of(RunConfig& run) {
  return language_run(run).model;
}
inline const LlamaConfig& model_of(const RunConfig& run) {
  return language_run(run).model;
}

/// A run of a small dense model on sequences of 160 tokens, for measurements of a step.
inline RunConfig small_language_run() {
  RunConfig config = default_language_run();
  LlamaConfig& model = model_of(config);
  model.layers = 2;
  model.hidden = 128;
  model.intermediate = 352;
  model.heads = 4;
  model.vocab_size = 512;
  model.max_positions = 256;
  language_run(config).data.sequence_length = 160;
  config.train.batch_size = 2;
  return config;
}

}  // namespace moh
