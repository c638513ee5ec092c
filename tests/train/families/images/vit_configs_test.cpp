// The configurations of classifiers. Rows of the paper's tables are settings of them:
// tests/cli/reproduction_rows_test.py.

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "core/dry_run.h"
#include "train/families/families.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/load_run_config.h"

using namespace moh;

namespace {

namespace fs = std::filesystem;

const fs::path vit_folder = fs::path(MOH_SOURCE_DIR) / "configs/vit";

/// By the formulas of the sizes, not by making the models: of the backbone and its routers.
struct Shipped {
  const char* name;
  std::int64_t parameters;  ///< 0 for models that the paper does not have
  double activated;         ///< percent of the heads
};
constexpr Shipped kRows[] = {
    {"paper", 49910548, 75.29},
    {"ablations", 49910548, 75.29},
    {"deit", 22050664, 100},
    {"cifar10_transnext_dense", 0, 100},
    {"cifar10_moh_75", 0, 75},
    {"cifar10_moh_50", 0, 50},
    {"cifar10_vit_dense", 0, 100},
    {"cifar10_vit_moh_75", 0, 75},
    {"quickstart", 0, 75},
    {"cifar10_vit_dense_6", 0, 100},
    {"cifar10_transnext_dense_42", 0, 100},
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

TEST_CASE("vit configs: the paper's recipe, of which ablations are 100 of its 300 epochs") {
  for (const Shipped& row : kRows) {
    const std::string name = row.name;
    if (row.parameters == 0) continue;
    INFO(name);
    const RunConfig run = load(name);
    CHECK(run.train.epochs == (name == "ablations" ? 100 : 300));
    CHECK(run.schedule.peak == 1e-3);
    CHECK(run.train.batch_size * run.train.accumulate == 1024);
    CHECK(run.precision == Precision::kBFloat16);
    CHECK(run.schedule_epochs.decay == (name == "ablations" ? 300 : 0));
    CHECK(run.optim.adamw.clip_grad_norm == (name == "deit" ? 0 : 1));
    CHECK(image_run(run).model.drop_path > 0);
  }
}
