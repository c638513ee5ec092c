#include "train/tasks/load_language_model.h"

#include <unordered_map>
#include <vector>

#include "train/config/load_run_config.h"
#include "train/tasks/configured_device.h"
#include "train/tasks/llama_from_config.h"
#include "train/tasks/model_presets.h"

namespace moh {

LanguageModel load_language_model(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides) {
  LanguageModel loaded;
  loaded.folder = resolve_checkpoint(path);
  const CheckpointContents contents = load_checkpoint(loaded.folder, LoadScope::kModelOnly);
  // How the steps were run is of no concern here, and must not keep the model from a CPU.
  std::vector<std::string> settings = {"cuda_graph=false", "attention.backend=auto"};
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  loaded.config = load_run_config((loaded.folder / "config.yaml").string(), settings, llama_model_presets());
  open_configured_device(loaded.config, NewProducts::kFirstProposal);
  loaded.tokenizer = make_tokenizer(name_of(loaded.config.data.tokenizer));
  loaded.model =
      std::make_unique<Llama>(llama_config_of(loaded.config.model),
                              Placement{dtype_of_precision(loaded.config.precision), loaded.config.device});
  load_parameters(*loaded.model, contents.model, "checkpoint " + loaded.folder.string());
  return loaded;
}

void load_parameters(const Module& model, std::span<const NamedTensor> tensors, std::string_view where) {
  const std::vector<NamedParameter> parameters = model.parameters();
  std::vector<TensorSpec> expected;
  for (const NamedParameter& p : parameters)
    expected.push_back({p.name, p.variable.shape(), p.variable.dtype()});
  check_matches(where, expected, tensors);
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const NamedTensor& entry : tensors) by_name[entry.name] = &entry.tensor;
  for (const NamedParameter& p : parameters) p.variable.value().copy_from(*by_name.at(p.name));
}

}  // namespace moh
