#include "train/apps/python/open_model.h"

#include "core/error.h"
#include "train/families/families.h"
#include "train/families/images/image_run.h"

namespace moh::python {

OpenModel::OpenModel(const std::filesystem::path& path, const std::vector<std::string>& settings,
                     const std::filesystem::path& description)
    : loaded_(load_model(path, families(), settings, ConfigUse::kModel, one_process(), description)) {}

std::int64_t OpenModel::parameters() const {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : loaded_.model->parameters())
    count += parameter.variable.value().numel();
  return count;
}

const Llama& OpenModel::llama(std::string_view call) const {
  const auto* const model = dynamic_cast<const Llama*>(loaded_.model.get());
  if (model != nullptr) return *model;
  throw ConfigError(error_message(call, "", "a language model", "task: " + task()));
}

const LanguageModel& OpenModel::language(std::string_view call) {
  if (!language_) language_.emplace(as_language_model(loaded_, call));
  return *language_;
}

const ImageModel& OpenModel::classifier(std::string_view call) const {
  const auto* const model = dynamic_cast<const ImageModel*>(loaded_.model.get());
  if (model != nullptr) return *model;
  throw ConfigError(error_message(call, "", "an image classifier", "task: " + task()));
}

const PictureReader& OpenModel::reader() {
  if (!reader_) reader_.emplace(image_run(loaded_.config));
  return *reader_;
}

const TrainedTranslation& OpenModel::translation(std::string_view call) {
  if (!translation_) translation_.emplace(as_translation(loaded_, call));
  return *translation_;
}

}  // namespace moh::python
