#include "train/tasks/load_language_model.h"

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
  const StoredCheckpoint checkpoint(loaded.folder, LoadScope::kModelOnly);
  checkpoint.verify();
  // How the steps were run is of no concern here, and must not keep the model from a CPU.
  std::vector<std::string> settings = {"cuda_graph=false", "attention.backend=auto"};
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  loaded.config = load_run_config((loaded.folder / "config.yaml").string(), settings, llama_model_presets());
  open_configured_device(loaded.config, NewProducts::kFirstProposal);
  loaded.tokenizer = make_tokenizer(name_of(loaded.config.data.tokenizer));
  loaded.model =
      std::make_unique<Llama>(llama_config_of(loaded.config.model),
                              Placement{dtype_of_precision(loaded.config.precision), loaded.config.device});
  load_parameters(*loaded.model, checkpoint, "checkpoint " + loaded.folder.string());
  return loaded;
}

void load_parameters(const Module& model, const StoredCheckpoint& checkpoint, std::string_view where) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& p : model.parameters()) tensors.push_back({p.name, p.variable.value()});
  checkpoint.load_model(where, tensors);
}

}  // namespace moh
