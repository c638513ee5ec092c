#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "train/config/load_run_config.h"
#include "train/tasks/llama_from_config.h"

namespace moh {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = MOH_SOURCE_DIR;

RunConfig load_shipped(const std::string& name) {
  return load_run_config((kSource / "configs/llm" / (name + ".yaml")).string(), {}, llama_model_presets());
}

TEST_CASE("shipped configs: every file under configs/ loads, and its resolved form reads back") {
  TemporaryFolder folder;
  int count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSource / "configs")) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path());
    CHECK(entry.path().extension() == ".yaml");
    const RunConfig run = load_run_config(entry.path().string(), {}, llama_model_presets());
    const std::string resolved = write_file(folder / "resolved.yaml", print_resolved(run));
    CHECK(load_run_config(resolved, {}, llama_model_presets()) == run);
    CHECK(llama_config_of(run.model).vocab_size == run.model.vocab_size);
    check(llama_config_of(run.model));
    ++count;
  }
  CHECK(count >= 12);
}

TEST_CASE("shipped configs: each run of one family writes to a folder of its own") {
  CHECK(load_shipped("tiny_shakespeare_moh_50").output.dir == "runs/tiny_shakespeare_moh_50");
  CHECK(load_shipped("quickstart").output.dir == "runs/quickstart");
}

// arXiv 2410.11842: 4M tokens per step, 100B tokens.
TEST_CASE("shipped configs: the paper's recipes") {
  struct Recipe {
    const char* name;
    double learning_rate, last_learning_rate;
    std::int64_t warmup_steps;
    double activated;
  };
  const Recipe recipes[] = {
      {"llm_s", 3e-4, 3e-5, 2000, 1},          {"moh_llm_s_75", 3e-4, 3e-5, 2000, 0.75},
      {"moh_llm_s_50", 3e-4, 3e-5, 2000, 0.5}, {"llm_b", 5e-4, 5e-5, 500, 1},
      {"moh_llm_b_75", 5e-4, 5e-5, 500, 0.75}, {"moh_llm_b_50", 5e-4, 5e-5, 500, 0.5},
  };
  for (const Recipe& recipe : recipes) {
    INFO(recipe.name);
    const RunConfig run = load_shipped(recipe.name);
    CHECK(run.model.preset == recipe.name);
    CHECK(activated_heads(llama_config_of(run.model)) == Approx(recipe.activated));
    CHECK(run.model.moh.balance_weight == 0.01);
    CHECK(run.data.sequence_length == 2048);
    CHECK(run.train.batch_size * run.train.accumulate == 2048);
    const std::int64_t tokens_per_step = 2048 * run.data.sequence_length;
    CHECK(run.train.steps * tokens_per_step >= 100'000'000'000);
    CHECK((run.train.steps - 1) * tokens_per_step < 100'000'000'000);
    CHECK(run.optim.learning_rate == recipe.learning_rate);
    CHECK(run.optim.weight_decay == 0.1);
    CHECK(run.optim.clip_grad_norm == 1);
    CHECK(run.schedule.kind == ScheduleKind::kCosine);
    CHECK(run.schedule.min_learning_rate == recipe.last_learning_rate);
    CHECK(run.schedule.warmup_start == 1e-7);
    CHECK(run.schedule.warmup_steps == recipe.warmup_steps);
  }
}

TEST_CASE("shipped configs: tiny Shakespeare runs differ in their attention only") {
  const RunConfig dense = load_shipped("tiny_shakespeare_dense");
  CHECK(activated_heads(llama_config_of(dense.model)) == 1);
  for (const auto& [name, activated] :
       {std::pair{"tiny_shakespeare_moh_75", 0.75}, std::pair{"tiny_shakespeare_moh_50", 0.5}}) {
    INFO(name);
    RunConfig run = load_shipped(name);
    CHECK(activated_heads(llama_config_of(run.model)) == Approx(activated));
    run.output = dense.output;
    run.model.moh = dense.model.moh;
    CHECK(run == dense);
  }
}

TEST_CASE("config reference: docs/config.md is what the field lists say") {
  INFO("docs/config.md is stale; make it anew with: moh config --reference > docs/config.md");
  CHECK(read_file(kSource / "docs/config.md") == print_reference(llama_model_presets()));
}

}  // namespace
}  // namespace moh
