#include "train/tasks/diffusion/diffusion_run.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "models/diffusion/dit.h"
#include "tests/support/message_of.h"
#include "train/config/load_run_config.h"
#include "train/families/families.h"
#include "train/tasks/load_model.h"

using namespace moh;

namespace {

RunConfig read(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const std::filesystem::path path = std::filesystem::path(MOH_SOURCE_DIR) / "configs/dit" / name;
  return load_run_config(path.string(), overrides, families().configs(), ConfigUse::kModel);
}

}  // namespace

TEST_CASE("diffusion run: every configuration of configs/dit is valid, and of the model that its name says") {
  int presets = 0;
  const std::filesystem::path folder = std::filesystem::path(MOH_SOURCE_DIR) / "configs/dit";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem();
    INFO(stem);
    const RunConfig run = read(entry.path().filename());
    const DiffusionRun& own = diffusion_run(run);
    CHECK(run.ema.decay > 0);
    if (own.preset == DiffusionRun::kNoPreset) continue;
    CHECK(own.preset == stem);
    ++presets;
  }
  CHECK(presets == 12);
}

TEST_CASE("diffusion run: the paper's rows train as its released code does") {
  for (const char* name :
       {"dit_s_2.yaml", "moh_dit_b_2_90.yaml", "moh_dit_xl_2_75.yaml", "../dit_ablations/full.yaml"}) {
    INFO(name);
    const RunConfig run = read(name);
    CHECK(run.train.batch_size == 32);  // of each of 8 GPUs, whose load-balance losses are apart
    CHECK(run.train.accumulate == 8);
    CHECK(run.precision == Precision::kFloat32);
    CHECK(run.tf32);
    CHECK(run.device != kCpu);
  }
  CHECK(read("dit_s_2.yaml", {"device=cpu", "tf32=false"}).device == kCpu);
  CHECK(read("moh_dit_xl_2_90.yaml").checkpoint.keep == std::vector<std::int64_t>{2000000});
}

TEST_CASE("diffusion run: the ablations change what they are called, and not how many heads are active") {
  const auto model = [](const std::string& name) {
    return diffusion_run(read("../dit_ablations/" + name + ".yaml")).model;
  };
  const DitConfig full = model("full"), no_shared = model("no_shared"), one_stage = model("one_stage");
  CHECK(no_shared.moh.num_shared.each == std::vector<std::int64_t>(12, 0));
  CHECK_FALSE(no_shared.moh.two_stage);
  CHECK_FALSE(one_stage.moh.two_stage);
  CHECK(one_stage.moh.num_shared == full.moh.num_shared);
  for (const DitConfig& each : {full, no_shared, one_stage})
    CHECK(activated_heads(routing_of(each)) == Approx(0.75));
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
