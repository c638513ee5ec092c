#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/train/trainer/config/config_folder.h"

namespace moh {
namespace {

/// The run of the checkpoint "ckpt".
LanguageRun checkpoint_run() {
  LanguageRun run;
  run.model.vocab_size = 300;
  run.model.layers = 3;
  run.model.hidden = 48;
  run.model.intermediate = 96;
  run.model.heads = 6;
  run.model.kv_heads = 3;
  run.model.max_positions = 512;
  run.model.rope_theta = 500000;
  return run;
}

/// Loads a text as a command does that opens the checkpoint; counts how often it was opened.
struct Loader {
  RunConfig load(const std::string& text) {
    const std::string path = write_file(folder / "a.yaml", "data: {train: x}\n" + text);
    RunFile file(path, {}, language_only());
    if (!file.leaves_model_open()) return file.finish(ConfigUse::kData);
    CHECK(file.run().init.from == "ckpt");
    ++opened;
    return file.finish(ConfigUse::kData, &source);
  }
  std::string error(const std::string& text) {
    std::string message = message_of<ConfigError>([&] { load(text); });
    const std::string prefix = folder.path().string() + "/";
    for (std::size_t i; (i = message.find(prefix)) != std::string::npos;) message.erase(i, prefix.size());
    return message;
  }

  TemporaryFolder folder;
  LanguageRun source = checkpoint_run();
  int opened = 0;
};

constexpr const char* kTwoOfSix = "model: {moh: {router: learned, num_shared: 2, top_k: 2";

TEST_CASE("config: init.from says what the model is, model.moh how it is routed") {
  Loader loader;
  const RunConfig run = loader.load(
      "init: {from: ckpt}\n"
      "model: {dropout: 0.1, vocab_size: 320, max_positions: 1024, moh: {router: query_norm, num_shared: 2, "
      "top_k: [1, 2, 3], straight_through: all, balance_weight: 0.001}}\n");
  LlamaConfig expected = checkpoint_run().model;
  expected.dropout = 0.1;
  expected.vocab_size = 320;
  expected.max_positions = 1024;
  expected.moh.router = routers::kQueryNorm;
  expected.moh.num_shared = 2;
  expected.moh.top_k = std::vector<std::int64_t>{1, 2, 3};
  expected.moh.straight_through = StraightThrough::kAll;
  expected.moh.balance_weight = 0.001;
  CHECK(model_of(run) == expected);
  CHECK(loader.opened == 1);
}

TEST_CASE("config: a routing of one's own replaces the checkpoint's as a whole, else that stays") {
  Loader loader;
  loader.source.model.moh.router = routers::kLearned;
  loader.source.model.moh.num_shared = 3;
  loader.source.model.moh.top_k = 1;
  loader.source.model.moh.two_stage = false;
  CHECK(model_of(loader.load("init: {from: ckpt}\n")).moh == loader.source.model.moh);
  const MohConfig own = model_of(loader.load(std::string("init: {from: ckpt}\n") + kTwoOfSix + "}}\n")).moh;
  CHECK(own.num_shared == 2);
  CHECK(own.two_stage);
}

TEST_CASE("config: the resolved config needs no checkpoint, and reads back to the same run") {
  Loader loader;
  for (const char* heads : {"first", "[1, 4]", "[[0, 1], [2, 3], [4, 5]]", "output_norm", "loss_increase"}) {
    INFO(heads);
    const RunConfig run =
        loader.load(std::string("init: {from: ckpt}\n") + kTwoOfSix + ", shared_heads: " + heads + "}}\n");
    loader.opened = 0;
    const std::string path = write_file(loader.folder / "resolved.yaml", print_resolved(run));
    CHECK(model_of(load_run_config(path, {}, language_only())) == model_of(run));
    RunConfig again = loader.load("include: resolved.yaml\n");
    again.output = run.output;
    language_run(again).data = language_run(run).data;
    CHECK(print_resolved(again) == print_resolved(run));
    CHECK(loader.opened == 0);
  }
}

TEST_CASE(
    "config: counts of heads may be shares of a layer's heads, which are counted in the resolved config") {
  Loader loader;
  const RunConfig run =
      loader.load("init: {from: ckpt}\nmodel: {moh: {router: learned, num_shared: 50%, top_k: 50%}}\n");
  CHECK(model_of(run).moh.num_shared == 3);  // of the 6 of the checkpoint
  CHECK(model_of(run).moh.top_k == 3);
  CHECK_THAT(print_resolved(run), Catch::Contains("num_shared: 3") && Catch::Contains("top_k: 3"));
  const auto load = [](const std::string& top_k, std::vector<std::string> overrides = {}) {
    return model_of(
        load_text("model: {heads: 16, moh: {router: learned, num_shared: 2, top_k: " + top_k + "}}\n",
                  std::move(overrides)));
  };
  CHECK(load("25%").moh.top_k == 4);
  CHECK(load("\"25%\"").moh.top_k == 4);
  CHECK(load("25%", {"model.moh.top_k=3"}).moh.top_k == 3);
  CHECK(load("3", {"model.moh.top_k=50%", "model.heads=32"}).moh.top_k == 16);
  const auto error = [](const std::string& top_k) {
    return error_of("model: {heads: 16, moh: {router: learned, num_shared: 2, top_k: " + top_k + "}}\n");
  };
  CHECK(error("20%") ==
        "a.yaml:1:65: model.moh.top_k: expected a share that is a whole number of the 16 heads, found "
        "20%, which is 3.2");
  CHECK_THAT(error("100%"), Catch::Contains("expected at most 14, the heads that are not shared, found 16"));
  for (const char* wrong : {"101%", "-1%", "x%", "[25%, 4]"})
    CHECK_THAT(error(wrong), Catch::Contains("a.yaml:1:") && Catch::Contains("expected an integer"));
}

TEST_CASE("config: of a preset, what is not given stays") {
  Loader loader;
  const RunConfig run =
      loader.load("init: {from: ckpt}\nmodel: {preset: moh_llm_s_75, moh: {router: query_norm}}\n");
  CHECK(model_of(run).moh.num_shared == 3);
  CHECK(model_of(run).moh.router == routers::kQueryNorm);
  CHECK(loader.opened == 0);
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
  CHECK_THAT(
      loader.error("init: {part: ema}\n"),
      Catch::Contains("init.from: expected a checkpoint, which the other keys of init need, found none"));
  CHECK_THAT(loader.error(std::string(kTwoOfSix) + ", shared_heads: output_norm}}\n"),
             Catch::Contains("model.moh.shared_heads: expected first, or lists of heads, without init.from, "
                             "found output_norm"));
  // Every resolved configuration has these keys, with what was their default when it was written.
  CHECK(loader.load("init: {moh: {calibration: {batches: 4}}}\n").init.from.empty());
  const std::string model = std::string(kTwoOfSix) + ", shared_heads: ";
  CHECK_THAT(loader.error("init: {from: ckpt}\nmodel: {moh: {shared_heads: output_norm}}\n"),
             Catch::Contains("model.moh.router: expected learned or query_norm for the heads"));
  CHECK_THAT(loader.error("init: {from: ckpt, moh: {calibration: {batches: 0}}}\n" + model + "first}}\n"),
             Catch::Contains("init.moh.calibration.batches: expected at least 1"));
  loader.load("init: {from: ckpt, moh: {router_start: zero, calibration: {batches: 0}}}\n" + model +
              "first}}\n");
  CHECK_THAT(loader.error("init: {from: ckpt}\n" + model + "frist}}\n"),
             Catch::Contains("expected first, output_norm, loss_increase, a list of heads, or a list of "
                             "such lists, one per layer, found frist; did you mean first?"));
  CHECK_THAT(loader.error("init: {from: ckpt}\n" + model + "[[0, 1], 2]}}\n"),
             Catch::Contains("shared_heads[0]"));
}

TEST_CASE("config: lists of shared heads must fit the counts") {
  const auto error = [](const std::string& heads) {
    return error_of(
        "model: {heads: 4, layers: 2, moh: {router: learned, num_shared: 2, top_k: 1, shared_heads: " +
        heads + "}}\n");
  };
  CHECK_THAT(error("[0]"),
             Catch::Contains("model.moh.shared_heads: expected as many heads as model.moh.num_shared "
                             "says (2), found 1 (layer 0)"));
  CHECK_THAT(error("[0, 4]"),
             Catch::Contains("expected heads from 0 to 3, each once, found head 4 (layer 0)"));
  CHECK_THAT(error("[[0, 1], [2, 2]]"), Catch::Contains("found a head twice (layer 1)"));
  CHECK_THAT(error("[[0, 1]]"), Catch::Contains("one per layer (model.layers is 2), found 1 lists"));
  CHECK_THAT(error("[-1, 0]"),
             Catch::Contains("shared_heads[0]: expected an integer of at least 0, found -1"));
  CHECK_THAT(error("output_norm"), Catch::Contains("expected first, or lists of heads, without init.from"));
  CHECK_THAT(error_of("model: {moh: {shared_heads: [0]}}\n"), Catch::Contains("expected a router"));
}

}  // namespace
}  // namespace moh
