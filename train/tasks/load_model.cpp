#include "train/tasks/load_model.h"

#include <utility>

#include "train/config/load_run_config.h"
#include "train/tasks/configured_device.h"

namespace moh {

LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides, ConfigUse use) {
  LoadedModel loaded;
  loaded.folder = resolve_checkpoint(path);
  const StoredCheckpoint checkpoint(loaded.folder, LoadScope::kModelOnly);
  checkpoint.verify();
  // How the steps were run is of no concern here, and must not keep the model from a CPU.
  std::vector<std::string> settings = {"cuda_graph=false", "attention.backend=auto"};
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  loaded.config =
      load_run_config((loaded.folder / "config.yaml").string(), settings, families.configs(), use);
  open_configured_device(loaded.config, NewProducts::kFirstProposal);
  loaded.family = &families.of(loaded.config);
  loaded.model = loaded.family->make_model(*loaded.config.family, placement_of(loaded.config));
  load_parameters(*loaded.model, checkpoint, "checkpoint " + loaded.folder.string());
  return loaded;
}

void load_parameters(const Module& model, const StoredCheckpoint& checkpoint, std::string_view where) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& p : model.parameters()) tensors.push_back({p.name, p.variable.value()});
  checkpoint.load_model(where, tensors);
}

}  // namespace moh
