#include "train/tasks/load_model.h"

#include "train/config/load_run_config.h"
#include "train/tasks/configured_device.h"
#include "train/weights/load_weights.h"

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
  load_exactly("checkpoint " + loaded.folder.string(), checkpoint.model(),
               tensors_of(loaded.model->parameters()));
  return loaded;
}

}  // namespace moh
