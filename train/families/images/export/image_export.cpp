#include "train/families/images/export/image_export.h"

#include <nlohmann/json.hpp>
#include <string>

#include "train/base/io/durable_file.h"
#include "train/families/images/export/python_files.h"
#include "train/families/images/label_names.h"
#include "train/families/images/timm_view.h"
#include "train/trainer/task/model_json.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

std::string class_name(const ImageRun& run, std::int64_t label) {
  const auto at = static_cast<std::size_t>(label);
  return at < run.class_names.size() ? run.class_names[at] : std::to_string(label);
}

/// The names of classes as transformers has them.
void add_labels(const ImageRun& run, Json& json) {
  Json names = Json::object(), labels = Json::object();
  for (std::int64_t label = 0; label < run.model.classes; ++label) {
    const std::string name = class_name(run, label);
    names[std::to_string(label)] = name;
    labels[name] = label;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(labels);
}

Json config_of(const ImageRun& run, std::string_view dtype) {
  const bool vit = run.model.architecture == ImageArchitecture::kVit;
  const std::string name = vit ? "MohVitForImageClassification" : "MohTransNextForImageClassification";
  const bool token = vit && run.model.vit.pooling == VitPooling::kClassToken;
  Json json;
  json["architectures"] = {name};
  json["model_type"] = kMohVit;
  json["auto_map"] = {{"AutoConfig", "transformers_moh_vit.MohVitConfig"},
                      {"AutoModelForImageClassification", "transformers_moh_vit." + name}};
  json["num_classes"] = run.model.classes;
  json["num_features"] = vit ? run.model.vit.hidden : run.model.transnext.dims.back();
  json["global_pool"] = token ? "token" : "avg";
  if (say_more_than_numbers(run.class_names)) json[std::string(kLabelNames)] = run.class_names;
  add_labels(run, json);
  json["model"] = Json::parse(model_json(run));
  json["pretrained_cfg"] = Json::parse(timm_view_json(run));
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;  // the same in transformers before 4.56
  return json;
}

}  // namespace

void write_moh_vit_files(const std::filesystem::path& folder, const ImageRun& run, std::string_view dtype) {
  require_python_router(folder, run.model.moh);
  write_file_durably(folder / "config.json", config_of(run, dtype).dump(2) + "\n");
  write_file_durably(folder / "moh_attention.py", moh_attention_py());
  write_file_durably(folder / "modeling_moh_vit.py", modeling_moh_vit_py());
  write_file_durably(folder / "transformers_moh_vit.py", transformers_moh_vit_py());
}

ImageRun read_moh_vit_config(const std::filesystem::path& file, const ConfigJson& json) {
  ImageRun run = image_run(*read_model_json(file, json, ImageRun()));
  if (json.has("pretrained_cfg")) read_timm_view(json.object("pretrained_cfg"), run);
  if (run.data.image_size == run.model.image_size) run.data.image_size = 0;
  run.class_names = read_label_names(json, run.model.classes);
  return run;
}

}  // namespace moh
