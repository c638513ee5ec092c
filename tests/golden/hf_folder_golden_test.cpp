// llama_model and its like as Hugging Face folders: config.json, and weights in one file or in shards.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "models/llm/llama.h"
#include "tests/golden/golden_folders.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/llama_golden.h"
#include "tests/support/temporary_folder.h"
#include "train/families/families.h"
#include "train/families/language/hf/hf_export.h"
#include "train/families/language/language_run.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"

using namespace moh;
using namespace moh::test;

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPrefix = "param.", kSuffix = "_expected.safetensors";

[[maybe_unused]] const bool registered =
    register_golden_kind("hf_weights") && register_golden_kind("hf_expected");

json parsed(const fs::path& file) {
  return json::parse(read_file(file));
}

/// All config.json below a folder, by path.
std::vector<fs::path> configs_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "config.json") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

/// Whether a config.json is that of the case's model: they agree in all sizes that both name.
bool describes(const fs::path& config_json, const GoldenCase& golden) {
  const json described = parsed(config_json);
  if (!described.contains("hidden_size")) return false;
  return std::ranges::all_of(golden.config().items(), [&](const auto& entry) {
    const auto found = described.find(entry.key());
    return found == described.end() || *found == entry.value();
  });
}

/// The weights in a folder, straight from its files.
std::vector<NamedTensor> stored_tensors(const fs::path& folder, const std::vector<GoldenFile>& files) {
  std::vector<NamedTensor> tensors;
  for (const GoldenFile& file : files) {
    if (file.kind != "hf_weights" || file.path.parent_path() != folder) continue;
    const SafetensorsFile weights(file.path);
    for (const WeightInfo& info : weights.tensors()) tensors.push_back({info.name, weights.tensor(info)});
  }
  return tensors;
}

bool holds_weights_of(const std::vector<NamedTensor>& stored, const GoldenCase& golden) {
  return std::ranges::all_of(stored, [&](const NamedTensor& entry) {
    const std::string name = std::string(kPrefix) + entry.name;
    if (!golden.has(name)) return false;
    const Tensor expected = golden.tensor(name);
    return entry.tensor.dtype() == expected.dtype() && entry.tensor.shape() == expected.shape() &&
           std::ranges::equal(entry.tensor.span<float>(), expected.span<float>());
  });
}

void save_weights(const GoldenCase& golden, const fs::path& file) {
  std::vector<NamedTensor> weights;
  for (const std::string& name : golden.names(kPrefix))
    weights.push_back({name.substr(kPrefix.size()), golden.tensor(name)});
  save_safetensors(file, weights, {{"format", "pt"}});
}

/// As init.from opens it; routed, where the reference was and the folder does not say so.
std::unique_ptr<Llama> model_of_folder(const fs::path& folder, bool released_routing = false) {
  const StoredModel stored(folder, families());
  REQUIRE(stored.config());
  const LlamaConfig& config = language_run(*stored.config()).model;
  auto model = std::make_unique<Llama>(released_routing ? released_llama(config) : config, DType::kFloat32);
  const std::vector<NamedParameter> parameters = model->parameters();
  CHECK(compare_weights(infos_of(tensors_of(parameters)), stored.weights()).none());
  load_weights(parameters, stored.weights());
  return model;
}

Tensor logits_of_folder(const fs::path& folder, const Tensor& tokens) {
  return model_of_folder(folder)->forward(tokens).logits.value();
}

/// As many shards as the index names, where there is one.
std::string format_of(const fs::path& folder) {
  const fs::path index = folder / "model.safetensors.index.json";
  if (!fs::exists(index)) return "safetensors";
  std::set<std::string> shards;
  const json contents = parsed(index);
  for (const auto& [tensor, file] : contents.at("weight_map").items()) shards.insert(file);
  return "safetensors in " + std::to_string(shards.size()) + " shards";
}

/// The model of a folder gets the tensors that lie there, in float32.
void check_loaded(const Llama& model, const std::vector<NamedTensor>& stored) {
  std::map<std::string, Tensor> tensors;
  for (const NamedTensor& entry : stored) tensors[entry.name] = entry.tensor.to(DType::kFloat32);
  for (const NamedParameter& p : model.parameters()) {
    INFO(p.name);
    CHECK(std::ranges::equal(p.variable.value().span<float>(), tensors.at(p.name).span<float>()));
  }
}

/// Compares a folder with what there is of it: the file of expected results beside it, and cases with the
/// same weights. Returns how many these were.
int check_folder(const fs::path& folder, const std::vector<NamedTensor>& stored,
                 const std::vector<GoldenFile>& files) {
  CHECK(StoredModel(folder, families()).weights().format() == format_of(folder));
  check_loaded(*model_of_folder(folder), stored);
  int compared = 0;
  for (const GoldenFile& file : files) {
    const bool is_case = file.kind == "llama_model";
    if (!is_case && file.path != folder.string() + std::string(kSuffix)) continue;
    const GoldenCase golden(file.path);
    if (is_case && !holds_weights_of(stored, golden)) continue;
    INFO("compared with " << file.path);
    const auto model = model_of_folder(folder, /*released_routing=*/!is_case);
    const Variable logits = model->forward(golden.tensor("in.input_ids")).logits;
    golden.check(is_case ? "out.dense.logits" : "out.logits", logits.value());
    golden.check(is_case ? "out.dense.ce_loss" : "out.ce_loss",
                 next_token_loss(logits, golden.tensor("in.labels")).value());
    if (!is_case) check_all_compared(golden);
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("golden: llama_model through a Hugging Face folder", "[shared]") {
  for_each_golden("llama_model", [](const GoldenCase& golden) {
    const Tensor tokens = golden.tensor("in.input_ids");
    const TemporaryFolder folder;
    save_weights(golden, folder / "model.safetensors");
    write_hf_model_files(folder.path(), dense_llama(golden.config()), "float32");
    golden.check("out.dense.logits", logits_of_folder(folder.path(), tokens));
    write_hf_model_files(folder.path(), routed_llama(golden), "float32");
    golden.check("out.logits", logits_of_folder(folder.path(), tokens));

    for (const fs::path& config : configs_in(golden.path().parent_path())) {  // what transformers wrote
      if (!describes(config, golden)) continue;
      INFO(config);
      write_file(folder / "config.json", read_file(config));
      golden.check("out.dense.logits", logits_of_folder(folder.path(), tokens));
    }
  });
}

TEST_CASE("golden: Hugging Face folders have the logits of their references", "[shared]") {
  for (const fs::path& root : golden_folders()) {
    const std::vector<GoldenFile> files = golden_files(root);
    for (const fs::path& config : configs_in(root)) {
      const fs::path folder = config.parent_path();
      INFO(folder);
      const std::vector<NamedTensor> stored = stored_tensors(folder, files);
      std::cout << "golden: " << folder.string() << ": ";
      if (stored.empty())
        std::cout << "no weights" << std::endl;
      else
        std::cout << check_folder(folder, stored, files) << " references" << std::endl;
    }
  }
}
