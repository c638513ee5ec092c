#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/train/config/config_folder.h"

namespace moh {
namespace {

/// What the checkpoint "ckpt" is made of.
ModelConfig checkpoint_model() {
  ModelConfig model;
  model.vocab_size = 300;
  model.layers = 3;
  model.hidden = 48;
  model.intermediate = 96;
  model.heads = 6;
  model.kv_heads = 3;
  model.max_positions = 512;
  model.rope_theta = 500000;
  return model;
}

/// Loads a text, with checkpoints at hand; counts how often one was opened.
struct Loader {
  RunConfig load(const std::string& text) {
    ModelPresets models = tiny_presets();
    models.of_source = [this](const RunConfig& run, bool sizes_given) -> std::optional<ModelConfig> {
      if (sizes_given || run.model.preset != ModelConfig::kNoPreset) return std::nullopt;
      CHECK(run.init.from == "ckpt");
      ++opened;
      return source;
    };
    const std::string path = write_file(folder / "a.yaml", "data: {train: x}\n" + text);
    return load_run_config(path, {}, models);
  }
  std::string error(const std::string& text) {
    std::string message = message_of<ConfigError>([&] { load(text); });
    const std::string prefix = folder.path().string() + "/";
    for (std::size_t i; (i = message.find(prefix)) != std::string::npos;) message.erase(i, prefix.size());
    return message;
  }

  TemporaryFolder folder;
  ModelConfig source = checkpoint_model();
  int opened = 0;
};

TEST_CASE("config: init.from says what the model is, init.moh how it is routed") {
  Loader loader;
  const RunConfig run = loader.load(
      "init: {from: ckpt, moh: {router: query_norm, shared: 2, routed_top_k: [1, 2, 3], straight_through: "
      "all}}\n"
      "model: {dropout: 0.1, vocab_size: 320, max_positions: 1024, moh: {balance_weight: 0.001}}\n");
  ModelConfig expected = checkpoint_model();
  expected.dropout = 0.1;
  expected.vocab_size = 320;
  expected.max_positions = 1024;
  expected.moh.router = RouterChoice::kQueryNorm;
  expected.moh.shared.every = 2;
  expected.moh.routed.each = {1, 2, 3};
  expected.moh.straight_through = StraightThroughChoice::kAll;
  expected.moh.balance_weight = 0.001;
  CHECK(run.model == expected);
  CHECK(loader.opened == 1);
}

TEST_CASE("config: the resolved config needs no checkpoint, and reads back to the same struct") {
  Loader loader;
  for (const char* heads :
       {"first", "[1, 4]", "[[0, 1], [2, 3], [4, 5]]", "output_norm", "loss_increase", "learned"}) {
    INFO(heads);
    const RunConfig run =
        loader.load("init: {from: ckpt, moh: {router: learned, shared: 2, routed_top_k: 2, shared_heads: " +
                    std::string(heads) + "}}\n");
    loader.opened = 0;
    const std::string path = write_file(loader.folder / "resolved.yaml", print_resolved(run));
    CHECK(load_run_config(path, {}, tiny_presets()).model == run.model);
    RunConfig again = loader.load("include: resolved.yaml\n");
    again.output = run.output;
    again.data = run.data;
    CHECK(again == run);
    CHECK(loader.opened == 0);
  }
}

TEST_CASE("config: shared heads that init.moh lists become those of the model") {
  Loader loader;
  const std::string init = "init: {from: ckpt, moh: {router: learned, shared: 2, routed_top_k: 2";
  CHECK(loader.load(init + ", shared_heads: [1, 4]}}\n").model.moh.shared_heads.every ==
        std::vector<std::int64_t>{1, 4});
  CHECK_FALSE(loader.load(init + ", shared_heads: learned}}\n").model.moh.shared_heads.listed());
  // What a measurement came to holds, wherever it is written.
  const RunConfig run = loader.load(
      init + ", shared_heads: learned}}\nmodel: {moh: {shared_heads: [[0, 1], [2, 3], [4, 5]]}}\n");
  CHECK(run.model.moh.shared_heads.at(1) == std::vector<std::int64_t>{2, 3});
  loader.source.moh.shared_heads.each = {{0, 1}, {2, 3}, {3, 4}};  // a resumed run
  CHECK(loader.load(init + ", shared_heads: learned}}\n").model.moh.shared_heads.at(2) ==
        std::vector<std::int64_t>{3, 4});
}

TEST_CASE("config: a routing may be given in model.moh as well, but only once") {
  Loader loader;
  const RunConfig run =
      loader.load("init: {from: ckpt}\nmodel: {moh: {router: learned, shared: 2, routed: 2}}\n");
  CHECK(run.model.moh.router == RouterChoice::kLearned);
  CHECK(
      loader.error("init: {from: ckpt, moh: {router: learned, shared: 2, routed_top_k: 2}}\n"
                   "model: {moh: {shared: 3}}\n") ==
      "a.yaml:3:23: model.moh.shared: expected what init.moh.shared says, found another value; give it once");
  // Of a preset, what init.moh does not say stays.
  const RunConfig preset =
      loader.load("init: {from: ckpt, moh: {router: query_norm}}\nmodel: {preset: tiny_moh}\n");
  CHECK(preset.model.moh.shared.every == 2);
  CHECK(preset.init.moh.shared.every == 2);
  CHECK(preset.model.moh.router == RouterChoice::kQueryNorm);
}

TEST_CASE("config: what contradicts the checkpoint is refused, with its place") {
  Loader loader;
  CHECK(loader.error("init: {from: ckpt}\nmodel: {layers: 4, kv_heads: 6}\n") ==
        "a.yaml:3:17: model.layers: expected 3 as in the checkpoint of init.from, found 4; remove the key\n"
        "a.yaml:3:30: model.kv_heads: expected 3 as in the checkpoint of init.from, found 6; remove the key");
  CHECK_THAT(loader.error("init: {from: ckpt}\nmodel: {vocab_size: 299}\n"),
             Catch::Contains("model.vocab_size: expected at least 300 as in the checkpoint"));
  loader.load("init: {from: ckpt}\nmodel: {layers: 3, head_dim: 8, recompute: layer, init_std: 0.1}\n");
}

TEST_CASE("config: init without what it needs is refused") {
  Loader loader;
  CHECK_THAT(loader.error("init: {moh: {router: learned}}\n"),
             Catch::Contains("init.from: expected a checkpoint for what init says, found none"));
  // Every resolved configuration has these keys, with what was their default when it was written.
  CHECK(loader.load("init: {moh: {router_spread: 0.02, calibration: {batches: 4}}}\n").init.from.empty());
  CHECK_THAT(loader.error("init: {from: ckpt, moh: {shared: 2}}\n"),
             Catch::Contains("init.moh.router: expected learned or query_norm"));
  const std::string init = "init: {from: ckpt, moh: {router: learned, shared: 2, routed_top_k: 2, ";
  CHECK_THAT(loader.error(init + "calibration: {batches: 0}}}\n"),
             Catch::Contains("init.moh.calibration.batches: expected at least 1"));
  loader.load(init + "router_start: zero, calibration: {batches: 0}}}\n");
  CHECK_THAT(
      loader.error(init + "shared_heads: frist}}\n"),
      Catch::Contains("expected first, output_norm, loss_increase, learned, a list of heads, or a list of "
                      "such lists, one per layer, found frist; did you mean first?"));
  CHECK_THAT(loader.error(init + "shared_heads: [[0, 1], 2]}}\n"), Catch::Contains("shared_heads[0]"));
}

TEST_CASE("config: lists of shared heads must fit the counts") {
  const auto error = [](const std::string& heads) {
    return error_of(
        "model: {heads: 4, layers: 2, moh: {router: learned, shared: 2, routed: 1, shared_heads: " + heads +
        "}}\n");
  };
  CHECK_THAT(error("[0]"),
             Catch::Contains("model.moh.shared_heads: expected as many heads as model.moh.shared "
                             "says (2), found 1 (layer 0)"));
  CHECK_THAT(error("[0, 4]"),
             Catch::Contains("expected heads from 0 to 3, each once, found head 4 (layer 0)"));
  CHECK_THAT(error("[[0, 1], [2, 2]]"), Catch::Contains("found a head twice (layer 1)"));
  CHECK_THAT(error("[[0, 1]]"), Catch::Contains("one per layer (model.layers is 2), found 1 lists"));
  CHECK_THAT(error("[-1, 0]"),
             Catch::Contains("shared_heads[0]: expected an integer of at least 0, found -1"));
  CHECK_THAT(error("output_norm"), Catch::Contains("expected first, a list of heads"));
  CHECK_THAT(error_of("model: {moh: {shared_heads: [0]}}\n"), Catch::Contains("expected a router"));
}

}  // namespace
}  // namespace moh
