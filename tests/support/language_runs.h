#pragma once

#include "train/config/load_run_config.h"
#include "train/tasks/language/language_family.h"
#include "train/tasks/language/language_run.h"

namespace moh {

/// A language model's run with all defaults.
inline RunConfig default_language_run() {
  return default_run(language_family().defaults());
}

/// What describes its model.
inline LlamaConfig& model_of(RunConfig& run) {
  return language_run(run).model;
}
inline const LlamaConfig& model_of(const RunConfig& run) {
  return language_run(run).model;
}

}  // namespace moh
