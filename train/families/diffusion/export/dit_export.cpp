#include "train/families/diffusion/export/dit_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"
#include "train/families/diffusion/export/python_files.h"
#include "train/families/images/export/python_files.h"
#include "train/families/images/label_names.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/task/model_json.h"

namespace moh {

namespace {

constexpr std::string_view kDropout = "class_dropout_prob", kHash = "autoencoder_hash",
                           kObjective = "objective", kPath = "path";

/// The value of an enum by its name in a config.json; `value` where there is none.
template <class E>
E named_or(const ConfigJson& json, std::string_view key, E value) {
  const std::span<const std::string_view> names = names_of(value);
  const auto named = std::ranges::find(names, json.text_or(key, std::string(name_of(value))));
  if (named == names.end()) json.damaged(key, "one of the names that moh writes", json.shown(key));
  return static_cast<E>(named - names.begin());
}

}  // namespace

void write_moh_dit_files(const std::filesystem::path& folder, const DiffusionRun& run,
                         std::string_view dtype) {
  require_python_router(folder, run.model.moh);
  nlohmann::ordered_json json;
  json["architectures"] = {"MohDit"};
  json["model_type"] = kMohDit;
  json["num_classes"] = run.model.classes;
  json[std::string(kDropout)] = run.diffusion.label_dropout;
  if (run.diffusion.objective != DiffusionObjective::kNoise)
    json[std::string(kObjective)] = name_of(run.diffusion.objective);
  if (run.diffusion.objective == DiffusionObjective::kFlow)
    json[std::string(kPath)] = name_of(run.diffusion.path);
  if (say_more_than_numbers(run.class_names)) json[std::string(kLabelNames)] = run.class_names;
  if (!run.trained_autoencoder.empty()) json[std::string(kHash)] = run.trained_autoencoder;
  json["model"] = nlohmann::ordered_json::parse(model_json(run));
  json["dtype"] = dtype;
  write_file_durably(folder / "config.json", json.dump(2) + "\n");
  write_file_durably(folder / "moh_attention.py", moh_attention_py());
  write_file_durably(folder / "modeling_moh_dit.py", modeling_moh_dit_py());
}

DiffusionRun read_moh_dit_config(const std::filesystem::path& file, const ConfigJson& json) {
  DiffusionRun run = diffusion_run(*read_model_json(file, json, DiffusionRun()));
  run.diffusion.label_dropout = json.number_or(kDropout, run.diffusion.label_dropout);
  if (!(run.diffusion.label_dropout >= 0 && run.diffusion.label_dropout <= 1))
    json.damaged(kDropout, "a number from 0 to 1", json.shown(kDropout));
  run.diffusion.objective = named_or(json, kObjective, run.diffusion.objective);
  run.diffusion.path = named_or(json, kPath, run.diffusion.path);
  run.class_names = read_label_names(json, run.model.classes);
  run.trained_autoencoder = printable(json.text_or(kHash, ""));
  return run;
}

}  // namespace moh
