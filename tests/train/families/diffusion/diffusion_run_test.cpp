#include "train/families/diffusion/diffusion_run.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "models/diffusion/dit.h"
#include "tests/support/message_of.h"
#include "train/families/families.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/load_model.h"

using namespace moh;

namespace {

RunConfig read(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const std::filesystem::path path = std::filesystem::path(MOH_SOURCE_DIR) / "configs/dit" / name;
  return load_run_config(path.string(), overrides, families().configs(), ConfigUse::kModel);
}

}  // namespace

// Rows of the paper's tables are presets and settings of paper.yaml: tests/cli/reproduction_rows_test.py.
TEST_CASE("diffusion run: every configuration of configs/dit is valid, and takes any preset") {
  const std::filesystem::path folder = std::filesystem::path(MOH_SOURCE_DIR) / "configs/dit";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path());
    CHECK(read(entry.path().filename()).ema.decay > 0);
  }
  for (const std::string& preset : DiffusionRun().presets()) {
    INFO(preset);
    CHECK(diffusion_run(read("paper.yaml", {"model.preset=" + preset})).preset == preset);
  }
}

TEST_CASE("diffusion run: the paper's recipe trains as its released code does") {
  const RunConfig run = read("paper.yaml");
  CHECK(run.train.batch_size == 32);  // of each of 8 GPUs, whose load-balance losses are apart
  CHECK(run.train.accumulate == 8);
  CHECK(run.precision == Precision::kFloat32);
  CHECK(run.tf32);
  CHECK(run.device != kCpu);
  CHECK(read("paper.yaml", {"device=cpu", "tf32=false"}).device == kCpu);
}

TEST_CASE("diffusion run: configurations of CIFAR-10 have the heads that they say") {
  const auto active = [](const char* name) {
    return activated_heads(routing_of(diffusion_run(read(name)).model));
  };
  CHECK(active("cifar10_dense.yaml") == 1);
  CHECK(active("cifar10_moh_90.yaml") == Approx(32.0 / 36));
  CHECK(active("cifar10_moh_75.yaml") == Approx(27.0 / 36));
  CHECK(active("quickstart.yaml") == Approx(0.75));
}

TEST_CASE("diffusion run: what does not fit is refused at its key") {
  const auto message = [](const std::vector<std::string>& overrides) {
    return message_of<ConfigError>([&] { read("quickstart.yaml", overrides); });
  };
  CHECK_THAT(message({"model.patch_size=3"}),
             Catch::Contains("model.patch_size") && Catch::Contains("a divisor of"));
  CHECK_THAT(message({"model.heads=[6, 6]"}), Catch::Contains("model.heads"));
  CHECK_THAT(message({"diffusion.label_dropout=1.5"}), Catch::Contains("diffusion.label_dropout"));
  CHECK_THAT(message({"sample.steps=ten"}), Catch::Contains("sample.steps") && Catch::Contains("ten"));
  CHECK_THAT(message({"sample.steps=1001"}), Catch::Contains("sample.steps"));
  const std::string flow = "diffusion.objective=flow";
  CHECK_NOTHROW(read("quickstart.yaml", {flow, "diffusion.path=cosine", "sample.steps=2000"}));
  CHECK_THAT(message({flow, "sample.steps=ddim50"}), Catch::Contains("sample.steps"));
  CHECK_THAT(message({flow, "sample.sampler=ddim"}),
             Catch::Contains("sample.sampler") && Catch::Contains("flow"));
  CHECK_THAT(message({"sample.sampler=heun"}), Catch::Contains("sample.sampler") && Catch::Contains("noise"));
  CHECK_THAT(message({"diffusion.path=cosine"}), Catch::Contains("diffusion.path"));
  CHECK_THAT(message({"diffusion.time_sampling=logit_normal"}), Catch::Contains("diffusion.time_sampling"));
  CHECK_THAT(message({flow, "diffusion.time_mean=1"}), Catch::Contains("diffusion.time_mean"));
  CHECK_THAT(message({"diffusion.objective=velocity"}), Catch::Contains("model.learn_variance"));
  CHECK_NOTHROW(read("quickstart.yaml", {"diffusion.objective=velocity", "model.learn_variance=false"}));
  CHECK_THAT(message({"init.distill.weight=1"}), Catch::Contains("init.distill.weight"));
}

TEST_CASE("diffusion run: models of one meaning agree, however their heads are written") {
  const RunConfig run = read("quickstart.yaml");
  const DiffusionRun& own = diffusion_run(run);
  DiffusionRun other = own;
  other.model.head_dim = 16;
  other.model.heads = std::vector<std::int64_t>{6, 6, 6, 6};
  CHECK(own.other_results(other).empty());
  CHECK(own.disagreements(other).empty());
  other.model.heads = std::vector<std::int64_t>{6, 6, 6, 12};
  CHECK_FALSE(own.disagreements(other).empty());
}

TEST_CASE("diffusion run: a list of heads of a wrong length does not hide what contradicts the checkpoint") {
  const RunConfig run = read("quickstart.yaml");
  DiffusionRun own = diffusion_run(run);
  own.model.moh.num_shared = std::vector<std::int64_t>{1};  // for several layers; check() refuses it
  CHECK(own.disagreements(diffusion_run(run)).empty());
  own.model.hidden *= 2;
  REQUIRE(own.disagreements(diffusion_run(run)).size() == 2);  // head_dim follows
  CHECK(own.disagreements(diffusion_run(run))[0].key == "model.hidden");
}
