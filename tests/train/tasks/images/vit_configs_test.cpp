// The configurations of the paper's classifiers and of its ablations.

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "core/dry_run.h"
#include "tests/support/temporary_folder.h"
#include "train/config/load_run_config.h"
#include "train/families/families.h"
#include "train/tasks/images/image_run.h"

using namespace moh;

namespace {

namespace fs = std::filesystem;

const fs::path vit_folder = fs::path(MOH_SOURCE_DIR) / "configs/vit";

/// By the formulas of the sizes, not by making the models: of the backbone, its routers, what a baseline
/// changes.
struct Shipped {
  const char* name;
  std::int64_t parameters;  ///< 0 for models that the paper does not have
  double activated;         ///< percent of the heads
};
constexpr Shipped kRows[] = {
    {"transnext_s", 49741564, 100},
    {"transnext_b", 89721496, 100},
    {"moh_vit_s_80", 49910548, 79.95},
    {"moh_vit_s_75", 49910548, 75.29},
    {"moh_vit_b_75", 90020632, 75},
    {"moh_vit_b_50", 90023512, 50},
    {"deit_s", 22050664, 100},
    {"deit_b", 86567656, 100},
    {"ablations/dense", 49741564, 100},
    {"ablations/full", 49910548, 75.29},
    {"ablations/no_shared", 49892116, 75.29},
    {"ablations/one_stage", 49892116, 75.29},
    {"ablations/shared_13_9", 49892116, 75.29},
    {"ablations/shared_27_6", 49904788, 75.29},
    {"ablations/shared_31_3", 49906228, 75.29},
    {"ablations/shared_35_9", 49907668, 75.29},
    {"ablations/shared_37_5", 49910548, 75.29},
    {"ablations/shared_40_5", 49910548, 75.29},
    {"ablations/shared_46_8", 49910548, 75.29},
    {"ablations/shared_60_4", 49910548, 75.29},
    {"ablations/shared_74_0", 49910548, 75.29},
    {"ablations/active_50", 49910548, 50.12},
    {"ablations/active_55", 49910548, 55.24},
    {"ablations/active_60", 49910548, 60.37},
    {"ablations/active_65", 49910548, 65.5},
    {"ablations/active_70", 49910548, 70.16},
    {"ablations/active_75", 49910548, 75.29},
    {"ablations/active_80", 49910548, 79.95},
    {"ablations/moa", 43141012, 75.29},
    {"ablations/sparse", 49741564, 100},
    {"ablations/learned_125", 90298480, 40.48},
    {"ablations/learned_25", 90298480, 50},
    {"ablations/learned_5", 90298480, 69.39},
    {"ablations/tiny_dense", 28258960, 100},
    {"ablations/tiny_moh", 28351552, 75.2},
    {"ablations/tiny_moe", 44570560, 100},
    {"ablations/tiny_moh_moe", 44663152, 75.2},
    {"ablations/small/dense", 0, 100},
    {"ablations/small/full", 0, 75},
    {"ablations/small/no_shared", 0, 75},
    {"ablations/small/one_stage", 0, 75},
    {"ablations/small/shared_19", 0, 75},
    {"ablations/small/shared_57", 0, 75},
    {"ablations/small/shared_76", 0, 75},
    {"ablations/small/active_57", 0, 57.14},
    {"ablations/small/active_75", 0, 75},
    {"ablations/small/active_86", 0, 85.71},
    {"ablations/small/moa", 0, 75},
    {"ablations/small/sparse", 0, 100},
    {"ablations/small/moe", 0, 100},
    {"ablations/small/moh_moe", 0, 75},
    {"ablations/small/learned_125", 0, 42.86},
    {"ablations/small/learned_25", 0, 50},
    {"ablations/small/learned_5", 0, 71.43},
    {"cifar10_transnext_dense", 0, 100},
    {"cifar10_moh_75", 0, 75},
    {"cifar10_moh_50", 0, 50},
    {"cifar10_vit_dense", 0, 100},
    {"cifar10_vit_moh_75", 0, 75},
    {"quickstart", 0, 75},
};

RunConfig load(const std::string& name) {
  return load_run_config((vit_folder / (name + ".yaml")).string(), {}, families().configs());
}

}  // namespace

TEST_CASE("vit configs: every file is a model of the published size, with its share of active heads") {
  std::map<std::string, const Shipped*> rows;
  for (const Shipped& row : kRows) rows[row.name] = &row;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(vit_folder)) {
    const std::string name = fs::relative(entry.path(), vit_folder).replace_extension().string();
    if (!entry.is_regular_file() || name.ends_with("recipe")) continue;
    INFO(name);
    const auto row = rows.find(name);
    REQUIRE(row != rows.end());
    const RunConfig run = load(name);
    const DryRunScope no_memory;
    const auto model = make_image_model(image_run(run).model, DType::kFloat32);
    if (row->second->parameters > 0) CHECK(count_parameters(*model) == row->second->parameters);
    CHECK(std::abs(100 * activated_heads(*model) - row->second->activated) < 0.01);
    rows.erase(row);
  }
  for (const auto& [name, row] : rows) FAIL_CHECK("there is no " << name);
}

TEST_CASE("vit configs: the ablations have the paper's recipe, at 100 epochs of its 300") {
  for (const Shipped& row : kRows) {
    const std::string name = row.name;
    if (row.parameters == 0) continue;
    INFO(name);
    const RunConfig run = load(name);
    const bool ablation = name.starts_with("ablations/") && !name.starts_with("ablations/learned");
    CHECK(run.train.epochs == (ablation ? 100 : 300));
    CHECK(run.schedule.peak == 1e-3);
    CHECK(run.train.batch_size * run.train.accumulate == 1024);
    CHECK(run.precision == Precision::kBFloat16);
    CHECK(run.schedule_epochs.decay == (ablation ? 300 : 0));
    CHECK(run.optim.adamw.clip_grad_norm == (name.starts_with("deit") ? 0 : 1));
    CHECK(image_run(run).model.drop_path > 0);
  }
}

TEST_CASE("vit configs: the other reading of 100 epochs is a file to include after a row") {
  const TemporaryFolder folder;
  const std::string ablations = (vit_folder / "ablations").string();
  for (const char* row : {"full", "moa"}) {
    std::string text = "include: [" + ablations;
    text.append("/").append(row).append(".yaml, ").append(ablations).append("/whole_cosine_recipe.yaml]\n");
    const std::string path = write_file(folder / "mine.yaml", text);
    const RunConfig run = load_run_config(path, {}, families().configs());
    RunConfig cut = load(std::string("ablations/") + row);
    CHECK(run.schedule_epochs.decay == 100);
    cut.schedule_epochs.decay = 100;
    cut.output = run.output;
    CHECK(print_resolved(run) == print_resolved(cut));
  }
}

TEST_CASE("vit configs: what an ablation changes is what it is called") {
  CHECK_FALSE(image_run(load("ablations/one_stage")).model.moh.two_stage);
  const ImageModelConfig moa = image_run(load("ablations/moa")).model;
  CHECK(moa.transnext.single_kv_head);
  CHECK(moa.moh.gate_scaling == GateScaling::kPaper);
  CHECK(moa.moh.balance_loss == BalanceLoss::kShares);
  CHECK(moa.moh.router_init == RouterInit::kZeros);
  CHECK(moa.moh.z_loss_weight == 0.001);  // of each layer, as in MoA's release
  CHECK(moa.moh.balance_weight == 0.01);
  CHECK(moa.moh.balance_layers == BalanceLayers::kSum);
  CHECK(image_run(load("ablations/sparse")).model.transnext.kept_keys ==
        std::vector<std::int64_t>{100, 100, 75, 75});
  CHECK(image_run(load("ablations/learned_25")).model.moh.learn_shared_until > 0);
  CHECK(image_run(load("ablations/tiny_moe")).model.transnext.experts == 2);
}
