#include "train/families/language/hf/hf_export.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/llm/llama_presets.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/language/hf/sample_models.h"

namespace moh {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

std::vector<test::SampleModel> samples_and_presets() {
  std::vector<test::SampleModel> models = test::sample_models();
  for (const LlamaPreset& preset : llama_presets()) models.push_back({preset.name, preset.config});
  return models;
}

LlamaConfig sample(std::string_view name) {
  for (const test::SampleModel& each : test::sample_models()) {
    if (each.name == name) return each.model;
  }
  throw std::runtime_error("no sample model " + std::string(name));
}

nlohmann::json exported(const fs::path& folder, const LlamaConfig& model, const HfTokenIds& tokens = {}) {
  write_hf_model_files(folder, model, "bfloat16", tokens);
  return nlohmann::json::parse(read_file(folder / "config.json"));
}

/// The message about an exported model in whose config.json one value was replaced.
template <class E>
std::string refused_export(const std::string& key, const nlohmann::json& value) {
  const TemporaryFolder folder;
  nlohmann::json changed = exported(folder.path(), sample("learned"));
  changed[key] = value;
  write_file(folder / "config.json", changed.dump());
  const std::string message = message_of<E>([&] { read_hf_config(folder / "config.json"); });
  return message.substr(message.find(": ") + 2);
}

}  // namespace

TEST_CASE("hf export: a model's files read back to the same model") {
  for (const test::SampleModel& each : samples_and_presets()) {
    INFO(each.name);
    const TemporaryFolder folder;
    write_hf_model_files(folder.path(), each.model, "float32");
    CHECK(read_hf_config(folder / "config.json") == each.model);
    CHECK(read_hf_token_ids(folder / "config.json") == HfTokenIds{});
  }
}

TEST_CASE("hf export: a dense model is a plain LLaMA, a MoH model brings its code") {
  const TemporaryFolder dense, moh_folder;
  const nlohmann::json plain = exported(dense.path(), sample("dense"));
  CHECK(plain.at("model_type") == "llama");
  CHECK(plain.at("architectures") == nlohmann::json{"LlamaForCausalLM"});
  CHECK(plain.at("dtype") == "bfloat16");
  CHECK(plain.at("torch_dtype") == "bfloat16");
  CHECK_FALSE(plain.contains("auto_map"));
  CHECK_FALSE(fs::exists(dense / "modeling_moh_llama.py"));

  const TemporaryFolder odd;
  const nlohmann::json own_form = exported(odd.path(), sample("odd_heads"));
  CHECK(own_form.at("model_type") == "moh_llama");
  CHECK(own_form.at("moh_router") == "none");
  CHECK(own_form.at("moh_shared_heads") == 5);
  CHECK(fs::exists(odd / "modeling_moh_llama.py"));

  const nlohmann::json json = exported(moh_folder.path(), sample("query_norm_per_layer"));
  CHECK(json.at("model_type") == "moh_llama");
  CHECK(json.at("auto_map").at("AutoModelForCausalLM") == "modeling_moh_llama.MohLlamaForCausalLM");
  CHECK(json.at("moh_shared_heads") == nlohmann::json{8, 3});
  CHECK(json.at("moh_active_heads") == nlohmann::json{8, 5});
  CHECK(json.at("rope_scaling").at("rope_type") == "llama3");
  CHECK(json.at("rope_parameters").at("rope_theta") == 500);
  for (const char* name : {"configuration_moh_llama.py", "modeling_moh_llama.py"}) {
    CHECK(read_file(moh_folder / name) ==
          read_file(fs::path(MOH_SOURCE_DIR) / "train/families/language/hf/python" / name));
  }
}

TEST_CASE("hf export: tokens are kept") {
  for (const HfTokenIds& tokens : {HfTokenIds{1, 0, {2}}, HfTokenIds{{}, {}, {128001, 128009}}}) {
    const TemporaryFolder folder;
    const nlohmann::json json = exported(folder.path(), sample("dense"), tokens);
    write_generation_config(folder.path(), tokens);
    CHECK(read_hf_token_ids(folder / "config.json") == tokens);
    CHECK(read_hf_token_ids(folder / "generation_config.json") == tokens);
    const auto generation = nlohmann::json::parse(read_file(folder / "generation_config.json"));
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
      CHECK(generation.at(key) == json.at(key));
  }
}

TEST_CASE("hf export: an exported MoH model that was changed by hand is checked") {
  CHECK_THAT(refused_export<CheckpointError>("moh_shared_heads", {1, 2, 3}),
             Contains("moh_shared_heads: expected 2 counts, one per layer, found 3"));
  CHECK_THAT(refused_export<CheckpointError>("moh_shared_heads", 9),
             Contains("a whole number from 0 to 8, found 9"));
  CHECK_THAT(refused_export<CheckpointError>("moh_active_heads", 2),
             Contains("moh_active_heads: expected at least moh_shared_heads, found 2"));
  CHECK_THAT(
      refused_export<ConfigError>("moh_active_heads", 3),
      Contains("moh.top_k: expected at least 1 of the 5 heads that are not shared, found 0 (layer 0)"));
  CHECK_THAT(refused_export<CheckpointError>("moh_active_heads", nullptr),
             Contains("moh_active_heads: expected a whole number, found nothing"));
  CHECK_THAT(refused_export<ConfigError>("moh_router", "qnorm_soft"),
             Contains("moh_router: expected one of none, learned, query_norm, found qnorm_soft"));
  for (const nlohmann::json& none : {nlohmann::json("none"), nlohmann::json()}) {
    CHECK_THAT(refused_export<CheckpointError>("moh_router", none),
               Contains("moh_router: expected learned or query_norm, unless every head is shared"));
  }
  CHECK_THAT(refused_export<CheckpointError>("moh_balance_weight", -1),
             Contains("expected 0 or more, found -1"));
  CHECK_THAT(refused_export<CheckpointError>("moh_balance_bias", -1), Contains("expected 0 to 1, found -1"));
  CHECK_THAT(refused_export<ConfigError>("moh_capacity", 1.5),
             Contains("moh_capacity: expected no such key, found 1.5; a newer moh may read it"));
  CHECK_THAT(refused_export<CheckpointError>("moh_shared_heads_index", {{0, 1, 2}}),
             Contains("expected 2 lists, one per layer, found 1"));
  CHECK_THAT(refused_export<CheckpointError>("moh_shared_heads_index", {0, 1}),
             Contains("expected a list of lists"));
  CHECK_THAT(refused_export<CheckpointError>("moh_shared_heads_index", {{0, 1, 2}, {0, 1, 8}}),
             Contains("from 0 to 7, found 8"));
  CHECK_THAT(
      refused_export<ConfigError>("moh_shared_heads_index", {{0, 1, 2}, {0, 1}}),
      Contains("moh.shared_heads: expected as many heads as moh.num_shared says (3), found 2 (layer 1)"));
  CHECK_THAT(
      refused_export<ConfigError>("moh_shared_heads_index",
                                  {nlohmann::json::array(), nlohmann::json::array()}),
      Contains("moh.shared_heads: expected as many heads as moh.num_shared says (3), found 0 (layer 0)"));
  CHECK_THAT(refused_export<ConfigError>("moh_shared_heads_index", {{0, 1, 2}, {0, 5, 5}}),
             Contains("expected heads from 0 to 7, each once, found a head twice (layer 1)"));

  const TemporaryFolder folder;
  nlohmann::json json = exported(folder.path(), sample("learned"));
  CHECK_FALSE(json.contains("moh_shared_heads_index"));
  json["moh_shared_heads_index"] = {{0, 1, 2}, {0, 2, 1}};
  write_file(folder / "config.json", json.dump());
  CHECK(read_hf_config(folder / "config.json") == sample("learned"));
}

TEST_CASE("hf export: shared heads that are listed go along, ascending") {
  const TemporaryFolder folder;
  LlamaConfig model = sample("learned");
  model.moh.shared_heads.every = {6, 1, 4};
  CHECK(exported(folder.path(), model).at("moh_shared_heads_index") == nlohmann::json{{1, 4, 6}, {1, 4, 6}});
  model.moh.shared_heads = {.each = {{7, 0, 1}, {2, 3, 4}}};
  CHECK(exported(folder.path(), model).at("moh_shared_heads_index") == nlohmann::json{{0, 1, 7}, {2, 3, 4}});
  CHECK(read_hf_config(folder / "config.json").moh.shared_heads.each ==
        std::vector<std::vector<std::int64_t>>{{0, 1, 7}, {2, 3, 4}});
}

}  // namespace moh
