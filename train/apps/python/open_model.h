#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/node.h"
#include "models/llm/llama.h"
#include "models/vision/image_model.h"
#include "train/families/images/picture_reader.h"
#include "train/families/language/language_family.h"
#include "train/families/translation/translation_family.h"
#include "train/trainer/task/load_model.h"

namespace moh::python {

/// A model that Python has loaded. Its calls compute without the interpreter's lock, one at a time.
class OpenModel {
 public:
  /// Throws as load_model() does.
  OpenModel(const std::filesystem::path& path, const std::vector<std::string>& settings,
            const std::filesystem::path& description);

  std::string path() const { return loaded_.path.string(); }
  std::string task() const { return std::string(loaded_.config.family->task()); }
  /// The run's whole configuration, as YAML.
  std::string config() const { return print_resolved(loaded_.config); }
  std::int64_t parameters() const;
  /// Attention layers.
  std::int64_t layers() const { return std::ssize(loaded_.model->routing()); }

  /// Calls `work` without the interpreter's lock and without gradients. What it returns is no object of
  /// Python. It may itself use the model, as a callback does.
  template <class Work>
  auto compute(const Work& work) {
    const nanobind::gil_scoped_release released;
    const std::lock_guard turn(turn_);
    const NoGrad no_grad;
    return work();
  }

  // Within compute(). Each throws ConfigError, naming `call`, for a model of another task.
  const Llama& llama(std::string_view call) const;
  /// Opens the tokenizer in the first call.
  const LanguageModel& language(std::string_view call);
  const ImageModel& classifier(std::string_view call) const;
  /// Reads picture files as the run of a classifier does.
  const PictureReader& reader();
  const TrainedTranslation& translation(std::string_view call);
  const RunConfig& run() const { return loaded_.config; }

 private:
  LoadedModel loaded_;
  std::recursive_mutex turn_;
  std::optional<LanguageModel> language_;
  std::optional<PictureReader> reader_;
  std::optional<TrainedTranslation> translation_;
};

}  // namespace moh::python
