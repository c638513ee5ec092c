#include "train/trainer/task/stored_model.h"
#include "train/families/families.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/base/formats/safetensors.h"
#include "train/families/language/language_run.h"
#include "train/trainer/task/model_config.h"

namespace moh {

namespace {

using Catch::Contains;

constexpr const char* kLlama =
    R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 8,
        "num_hidden_layers": 3, "max_position_embeddings": 64, "vocab_size": 300})";

/// A folder with weights, and a run's YAML that begins from them, with tokens of its own, and says nothing of
/// its model.
struct Source {
  TemporaryFolder folder;
  std::string run;

  Source() {
    save_safetensors(folder / "model.safetensors",
                     std::vector<NamedTensor>{{"a", full({4}, 1, DType::kFloat32)}});
    run = write_file(folder / "run.yaml", "data: {sequence_length: 32}\ninit: {from: " +
                                              folder.path().string() + ", new_tokenizer: true}\n");
  }
};

/// The message about a model with this text as its config.json, without the file's name.
template <class E>
std::string refused_source(const Source& source, const std::string& text) {
  const std::string path = write_file(source.folder / "config.json", text);
  const std::string message = message_of<E>([&] { StoredModel(source.folder.path(), families()).config(); });
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

}  // namespace

TEST_CASE("tasks: the family that recognises a config.json reads it") {
  const Source source;
  write_file(source.folder / "config.json", kLlama);
  const StoredModel stored(source.folder.path(), families());
  const FamilyConfig* const found = stored.config();
  REQUIRE(found);
  CHECK(found->task() == LanguageRun::kTask);
  CHECK(language_run(*found).model.layers == 3);
  CHECK(families().of(*found).weight_names().describe(*found) ==
        "LLaMA, 3 layers of width 32, 8 heads of 4, vocabulary 300, dense");
}

TEST_CASE("tasks: a stored model is opened once") {
  const Source source;
  const std::filesystem::path config_json = write_file(source.folder / "config.json", kLlama);
  const StoredModel stored(source.folder.path(), families());
  const WeightFile* const weights = &stored.weights();
  const FamilyConfig* const config = stored.config();
  REQUIRE(config);
  for (const std::filesystem::path& file : {stored.location().weights, config_json})
    REQUIRE(std::filesystem::remove(file));
  CHECK(&stored.weights() == weights);
  CHECK(stored.config() == config);
  CHECK(&stored.family() == &families().of(*config));
  CHECK(stored.described_by() == config_json);
}

TEST_CASE("tasks: a file describes weights that come without a configuration, and no others") {
  const Source source;
  const std::filesystem::path description = write_file(source.folder / "other.json", kLlama);
  StoredModel bare(source.folder.path(), families());
  CHECK_FALSE(bare.config());
  CHECK(bare.described_by() == source.folder / "model.safetensors");
  bare.describe_by(description);
  REQUIRE(bare.config());
  CHECK(language_run(*bare.config()).model.layers == 3);
  CHECK(bare.described_by() == description);
  write_file(source.folder / "config.json", kLlama);
  StoredModel described(source.folder.path(), families());
  CHECK_THAT(message_of<ConfigError>([&] { described.describe_by(description); }),
             Contains("expected weights without a configuration, found those that " +
                      (source.folder / "config.json").string() + " describes"));
}

TEST_CASE("tasks: a config.json of no family that is known") {
  const Source source;
  CHECK(refused_source<ConfigError>(source, R"({"model_type": "gpt2"})") ==
        "model_type: expected llama, mistral, qwen2, qwen3, moh_llama, moh_vit, moh_dit, marian or fsmt, "
        "found gpt2");
  CHECK(
      refused_source<ConfigError>(source, R"({"model_type": "mixtral"})") ==
      "model_type: expected llama, mistral, qwen2, qwen3 or moh_llama, found mixtral; its MLPs are mixtures "
      "of experts");
  CHECK(refused_source<CheckpointError>(source, "{}") == "model_type: expected a text, found nothing");
  CHECK(refused_source<CheckpointError>(source, R"({"model_type": 7})") ==
        "model_type: expected a text, found 7");
}

TEST_CASE("tasks: a run that leaves its model open has that of init.from") {
  const Source source;
  CHECK_THAT(message_of<ConfigError>([&] { read_model_config(source.run, families()); }),
             Contains("init.from: " + source.folder.path().string() +
                      ": expected a configuration next to the weights, or in the run, found neither; give "
                      "model.vocab_size, model.layers, model.hidden, model.intermediate, model.heads, "
                      "model.norm_eps, model.rope_theta, model.rope_scaling.kind, or model.preset"));
  // The keys that were named there are enough.
  RunFile described(
      source.run,
      {"model.vocab_size=300", "model.layers=2", "model.hidden=32", "model.intermediate=48", "model.heads=4",
       "model.norm_eps=1e-6", "model.rope_theta=1e4", "model.rope_scaling.kind=none"},
      families().configs());
  CHECK(language_run(finish_run(described, families(), ConfigUse::kModel)).model.norm_eps == 1e-6);
  write_file(source.folder / "config.json", kLlama);
  const auto model = read_model_config(source.run, families());
  CHECK(language_run(*model).model.layers == 3);
  CHECK(language_run(*model).model.vocab_size == 300);
  // A preset leaves nothing open.
  RunFile given(source.run, {"model.preset=llm_s"}, families().configs());
  CHECK(language_run(finish_run(given, families(), ConfigUse::kModel)).model.layers == 12);
}

TEST_CASE("tasks: weights of another program, which nothing describes, are said to be so") {
  const Source source;
  save_safetensors(source.folder / "model.safetensors",
                   std::vector<NamedTensor>{{"tok_embeddings.weight", full({4}, 1, DType::kFloat32)}});
  CHECK_THAT(message_of<CheckpointError>([&] { read_model_config(source.run, families()); }),
             Contains("init.from: " + (source.folder / "model.safetensors").string() +
                      ": names: expected those of a model that moh has, found those of a model "
                      "in the form of Meta's own code; lay its"));
}

TEST_CASE("tasks: runs that begin from each other in a circle are refused") {
  const Source source;
  write_file(source.folder / "manifest.json", "{}");
  write_file(source.folder / "config.yaml",
             "init: {from: " + (source.folder / "model.safetensors").string() + "}\n");
  CHECK_THAT(
      message_of<ConfigError>([&] { StoredModel(source.folder / "model.safetensors", families()).config(); }),
      Contains("config.yaml: model: expected every key, as the configuration beside a checkpoint has them"));
}

}  // namespace moh
