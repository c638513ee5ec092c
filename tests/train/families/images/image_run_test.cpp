#include "train/families/images/image_run.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "tests/support/image_runs.h"
#include "tests/support/message_of.h"
#include "train/families/families.h"

using namespace moh;

namespace {

using Counts = std::vector<std::int64_t>;

RunConfig read_run(const std::string& text) {
  return RunFile::of_text("a.yaml", "task: image_classification\n" + text, families().configs())
      .finish(ConfigUse::kModel);
}

std::string run_error(const std::string& text) {
  return message_of<ConfigError>([&] { read_run(text); });
}

}  // namespace

TEST_CASE("image run: a preset of either architecture is a model, and reads back") {
  for (const std::string& name : image_presets()) {
    INFO(name);
    const RunConfig run = read_run("model: {preset: " + name + "}\n");
    const ImageModelConfig& model = image_run(run).model;
    CHECK(model.architecture ==
          (name.starts_with("deit") ? ImageArchitecture::kVit : ImageArchitecture::kTransNext));
    CHECK(model.classes == 1000);
    CHECK(model.drop_path > 0);
    const RunConfig again =
        RunFile::of_text("b.yaml", print_resolved(run), families().configs()).finish(ConfigUse::kModel);
    CHECK(image_run(again).model == model);
  }
}

TEST_CASE("image run: counts of heads by stage, by block, or both") {
  const std::string sizes =
      "model: {transnext: {dims: [24, 48], heads: [2, 4], depths: [1, 2], mlp_ratios: [4, 4], pool_ratios: "
      "[2, 1]}, moh: {router: learned, ";
  for (const std::string counts :
       {"num_shared: [1, 2], top_k: [1, 1]}}\n", "num_shared: [1, 2, 2], top_k: [1, 1, 1]}}\n",
        "num_shared: [1, 2], top_k: [1, 1, 1]}}\n"}) {
    const ImageModelConfig model = spelt_out(image_run(read_run(sizes + counts)).model);
    CHECK(model.moh.num_shared.each == Counts{1, 2, 2});
    CHECK(model.moh.top_k.each == Counts{1, 1, 1});
  }
}

TEST_CASE("image run: a model's faults are reported at the keys that users write") {
  CHECK_NOTHROW(
      read_run("model: {transnext: {dims: [24, 50], heads: [1, 2], depths: [1, 1], mlp_ratios: [4, 4], "
               "pool_ratios: [2, 1]}}\n"));
  CHECK_THAT(
      run_error("model: {transnext: {dims: [24, 50], heads: [1, 3], depths: [1, 1], mlp_ratios: [4, 4], "
                "pool_ratios: [2, 1]}}\n"),
      Catch::Contains("a.yaml:2:44: model.transnext.heads: expected a divisor of model.transnext.dims (50)"));
  CHECK_THAT(
      run_error("model:\n  architecture: vit\n  image_size: 100\n  vit: {patch_size: 16}\n"),
      Catch::Contains(
          "a.yaml:5:21: model.vit.patch_size: expected a divisor of model.image_size (100), found 16"));
  CHECK_THAT(
      run_error("model:\n  architecture: vit\n  moh: {router: query_norm}\n"),
      Catch::Contains(
          "model.moh.router: expected one of none, learned, static, found query_norm; query_norm reads the "
          "queries, which these models project after the routing"));
  CHECK_THAT(run_error("model: {architecture: vit}\ndata: {image_size: 50}\n"),
             Catch::Contains("data.image_size: expected a multiple of model.vit.patch_size (16), found 50"));
  CHECK_THAT(run_error("model: {transnext: {dims: 24}}\n"),
             Catch::Contains("model.transnext.dims: expected a list of integers of at least 1, found 24"));
  CHECK_THAT(run_error("model: {transnext: {dims: [24, x]}}\n"),
             Catch::Contains("model.transnext.dims[1]: expected an integer of at least 1, found x"));
}

TEST_CASE("image run: a share of heads is one of each stage") {
  const std::string model =
      "model: {transnext: {dims: [48, 96], heads: [2, 4], depths: [1, 2], mlp_ratios: [4, 4], pool_ratios: "
      "[2, 1]}, "
      "moh: {router: learned, num_shared: 50%, top_k: ";
  const RunConfig run = read_run(model + "50%}}\n");
  CHECK(image_run(run).model.moh.num_shared == PerLayer(Counts{1, 2}));
  CHECK(image_run(run).model.moh.top_k == PerLayer(Counts{1, 2}));
  CHECK_THAT(run_error(model + "25%}}\n"),
             Catch::Contains("model.moh.top_k: expected a share that is a whole number of the 2 heads"));
}

TEST_CASE("image run: steps on the command line that do not count beside the file's epochs are noted") {
  const auto notes = [](const std::string& text, const std::vector<std::string>& overrides) {
    RunFile file =
        RunFile::of_text("a.yaml", "task: image_classification\n" + text, families().configs(), overrides);
    file.finish(ConfigUse::kModel);
    std::string all;
    for (const std::string& note : file.notes()) all += note + "\n";
    return all;
  };
  const std::string epochs = "train: {epochs: 3, steps: 7}\neval: {every_epochs: 2}\n";
  CHECK(notes(epochs, {}).empty());
  CHECK(notes(epochs, {"train.steps=30", "train.epochs=0"}).empty());
  CHECK_THAT(notes(epochs, {"train.steps=30"}),
             Catch::Contains(
                 "train.steps is not used: train.epochs (3) says the same in epochs; add train.epochs=0"));
  CHECK_THAT(notes(epochs, {"eval.every=5"}),
             Catch::Contains("eval.every is not used: eval.every_epochs (2)"));
}

TEST_CASE("image run: epochs are for data that have them") {
  const std::string epochs = "train: {epochs: 3}\nschedule: {stepwise: false, warmup_epochs: 1}\n";
  CHECK(read_run(epochs).train.epochs == 3);
  CHECK_THAT(
      run_error("train: {epochs: 3}\nschedule: {warmup_epochs: 3}\n"),
      Catch::Contains(
          "a.yaml:3:27: schedule.warmup_epochs: expected less than the epochs of the decay (3), found 3"));
  CHECK_THAT(run_error("schedule: {stepwise: false}\n"),
             Catch::Contains("expected the end of the decay, or train.epochs"));
  const auto of_text = [&] {
    RunFile::of_text("b.yaml", "data: {train: x}\n" + epochs, families().configs()).finish(ConfigUse::kModel);
  };
  const std::string message = message_of<ConfigError>(of_text);
  CHECK_THAT(message, Catch::Contains(
                          "train.epochs: expected 0 with task: language_model, which counts steps, found 3"));
  CHECK_THAT(message, Catch::Contains("schedule.stepwise: expected true"));
}

TEST_CASE("image run: models of one routing in two forms do not disagree") {
  RunConfig stages = small_image_run(ImageArchitecture::kTransNext), blocks = stages;
  images_of(blocks).model.moh.num_shared = Counts{2, 1, 1};
  images_of(blocks).model.moh.top_k = Counts{0, 2, 2};
  CHECK(images_of(stages).other_results(*blocks.family).empty());
  images_of(blocks).model.moh.top_k = Counts{0, 2, 1};
  images_of(blocks).model.vit.layers = 7;  // of no meaning in a TransNeXt
  const auto found = images_of(stages).other_results(*blocks.family);
  REQUIRE(found.size() == 1);
  CHECK(found[0].key == "model.moh.top_k");
  CHECK(images_of(stages).disagreements(*blocks.family).empty());
  images_of(blocks).model.classes = 9;
  CHECK(images_of(stages).disagreements(*blocks.family).size() == 1);
}
