// llama_model by way of a Hugging Face folder: config.json and model.safetensors, dense and MoH.

#include "models/llm/llama.h"
#include "tests/golden/golden_case.h"
#include "tests/support/temporary_folder.h"
#include "train/families/families.h"
#include "train/formats/safetensors.h"
#include "train/tasks/language/hf/hf_export.h"
#include "train/tasks/language/language_run.h"
#include "train/tasks/model_source.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"

using namespace moh;
using namespace moh::test;

namespace {

namespace fs = std::filesystem;

/// The config.json of that model, as transformers wrote it.
const fs::path kConfig = fs::path(MOH_SOURCE_DIR) / "tests/golden/data/hf_llama_tiny/config.json";

/// As the released code fixes it: half of the heads shared, a quarter kept of the rest.
LlamaConfig with_routing(LlamaConfig model) {
  model.moh.router = RouterKind::kQueryNorm;
  model.moh.num_shared = model.heads / 2;
  model.moh.top_k = model.heads / 4;
  return model;
}

void save_weights(const GoldenCase& golden, const fs::path& file) {
  constexpr std::string_view kPrefix = "param.";
  std::vector<NamedTensor> weights;
  for (const std::string& name : golden.names(kPrefix))
    weights.push_back({name.substr(kPrefix.size()), golden.tensor(name)});
  save_safetensors(file, weights, {{"format", "pt"}});
}

/// As init.from reads it.
Tensor logits_of_folder(const fs::path& folder, const Tensor& tokens) {
  const ModelLocation location = locate_model(folder);
  const auto config = read_model_config(location, families());
  REQUIRE(config);
  const Llama model(language_run(*config).model, DType::kFloat32);
  const std::vector<NamedParameter> parameters = model.parameters();
  const auto weights = open_weights(location);
  CHECK(compare_weights(infos_of(tensors_of(parameters)), *weights).none());
  load_weights(parameters, *weights);
  return model.forward(tokens).logits.value();
}

}  // namespace

TEST_CASE("golden: llama_model through a Hugging Face folder") {
  for_each_golden("llama_model", [](const GoldenCase& golden) {
    const Tensor tokens = golden.tensor("in.input_ids");
    const TemporaryFolder folder;
    save_weights(golden, folder / "model.safetensors");

    write_file(folder / "config.json", read_file(kConfig));
    golden.check("out.dense.logits", logits_of_folder(folder.path(), tokens));

    const LlamaConfig dense = read_hf_config(kConfig);
    write_hf_model_files(folder.path(), dense, "float32");
    golden.check("out.dense.logits", logits_of_folder(folder.path(), tokens));
    write_hf_model_files(folder.path(), with_routing(dense), "float32");
    golden.check("out.logits", logits_of_folder(folder.path(), tokens));
  });
}
