#include "train/tasks/model_presets.h"

#include "models/llm/llama_presets.h"
#include "train/init/load_source.h"
#include "train/tasks/llama_from_config.h"

namespace moh {

const ModelPresets& llama_model_presets() {
  static const ModelPresets presets = [] {
    ModelPresets found;
    for (const LlamaPreset& preset : llama_presets()) found.names.emplace_back(preset.name);
    found.get = model_config_of_preset;
    found.of_source = model_of_source;
    return found;
  }();
  return presets;
}

}  // namespace moh
