#include "train/tasks/language/loaded_language_model.h"

#include <string>

#include "core/error.h"
#include "train/config/enum_names.h"
#include "train/tasks/language/language_run.h"

namespace moh {

LanguageModel as_language_model(const LoadedModel& loaded, std::string_view command) {
  const auto* model = dynamic_cast<const Llama*>(loaded.model.get());
  if (model == nullptr) {
    throw ConfigError(
        error_message(command, "", "a language model", "task: " + std::string(loaded.config.family->task())));
  }
  return {*model, make_tokenizer(name_of(language_run(loaded.config).data.tokenizer))};
}

}  // namespace moh
