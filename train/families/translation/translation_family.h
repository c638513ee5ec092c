#pragma once

#include <memory>
#include <string_view>

#include "models/translation/translation_model.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/task/family.h"
#include "train/trainer/task/load_model.h"

namespace moh {

/// Encoder-decoder Transformers that translate: `task: translation`.
const Family& translation_family();

/// A trained model that translates, with its tokenizers.
struct TrainedTranslation {
  const TranslationModel& model;  ///< owned by the LoadedModel
  LanguageTokenizers tokenizers;
  SentenceMarks marks;
};

/// The model of a checkpoint. Throws ConfigError, naming `command`, for a model of another task.
TrainedTranslation as_translation(const LoadedModel& loaded, std::string_view command);

}  // namespace moh
