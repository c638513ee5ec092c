#include "train/tasks/load_model.h"

#include "core/dry_run.h"
#include "ops/linalg/gemm_options.h"
#include "train/io/durable_file.h"
#include "train/io/input_file.h"
#include "train/weights/load_weights.h"

namespace moh {

void open_configured_device(const RunConfig& config, NewProducts new_products) {
  open_device(config.device);
  if (config.device == kCpu) return;
  GemmOptions options;
  if (const std::filesystem::path file = config.gemm_algorithms; !file.empty()) {
    constexpr std::uint64_t kMostBytes = 16 << 20;
    options.algorithms_name = file.string();
    if (std::filesystem::exists(file))
      options.algorithms = read_text_file(file, InputKind::kData, kMostBytes);
    options.search = new_products != NewProducts::kFirstProposal;
    if (new_products == NewProducts::kSearchAndKeep)
      options.on_found = [file](const std::string& text) { write_file_durably(file, text); };
  }
  set_gemm_options(options);
}

Placement placement_of(const RunConfig& run) {
  return {dtype_of(run.precision), run.device, {.tf32 = run.tf32, .attention = run.attention.backend}};
}

std::vector<WeightInfo> expected_tensors(const Family& family, const FamilyConfig& config, DType dtype) {
  const DryRunScope no_memory;
  return infos_of(tensors_of(family.make_model(config, {dtype, kCpu})->parameters()));
}

std::unique_ptr<Model> make_initialised_model(const Family& family, const RunConfig& run) {
  std::unique_ptr<Model> model = family.make_model(*run.family, placement_of(run));
  model->initialise(run.random_seed());
  return model;
}

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
