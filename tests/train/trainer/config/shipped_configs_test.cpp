#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "models/llm/llama.h"
#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/families/families.h"
#include "train/families/images/image_run.h"

namespace moh {
namespace {

namespace fs = std::filesystem;

const fs::path source_folder = MOH_SOURCE_DIR;

RunConfig load_shipped(const std::string& name) {
  return load_run_config((source_folder / "configs/llm" / (name + ".yaml")).string(), {},
                         families().configs());
}

TEST_CASE("shipped configs: every file of a run under configs/ loads, and its resolved form reads back") {
  TemporaryFolder folder;
  int count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_folder / "configs")) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path());
    CHECK(entry.path().extension() == ".yaml");
    const RunConfig run = load_run_config(entry.path().string(), {}, families().configs());
    const std::string resolved = write_file(folder / "resolved.yaml", print_resolved(run));
    CHECK(print_resolved(load_run_config(resolved, {}, families().configs())) == print_resolved(run));
    ++count;
  }
  CHECK(count >= 25);
}

TEST_CASE(
    "shipped configs: each run writes to a folder of its own, whatever the family and the current folder") {
  std::map<std::string, std::string> file_of;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_folder / "configs")) {
    if (!entry.is_regular_file()) continue;
    const std::string dir = load_run_config(entry.path().string(), {}, families().configs()).output.dir;
    INFO(entry.path() << " and " << file_of[dir] << " write to " << dir);
    CHECK(file_of.at(dir).empty());
    file_of[dir] = entry.path();
  }
  CHECK(load_shipped("quickstart").output.dir == "runs/llm/quickstart");
  CHECK(file_of.contains("runs/vit/quickstart"));
  CHECK(file_of.contains("runs/dit/quickstart"));
}

TEST_CASE("config: a file that is not below configs writes to a folder of its family and name") {
  TemporaryFolder folder;
  const auto dir_of = [&](const std::string& name, const std::string& text) {
    const std::string path = write_file(folder / name, "data: {train: x}\n" + text);
    return load_run_config(path, {}, families().configs()).output.dir.string();
  };
  CHECK(dir_of("mine.yaml", "") == "runs/llm/mine");
  CHECK(dir_of("mine.yaml", "task: image_classification\n") == "runs/vit/mine");
  CHECK(dir_of("mine.yaml", "task: diffusion\n") == "runs/dit/mine");
  CHECK(dir_of("mine.yaml", "output: {dir: here}\n") == "here");
  fs::create_directories(folder / "configs/a/b");
  CHECK(dir_of("configs/mine.yaml", "") == "runs/llm/mine");
  CHECK(dir_of("configs/a/b/mine.yaml", "") == "runs/a/b/mine");
}

TEST_CASE("shipped configs: the paper's mixture") {
  const RunConfig run = load_shipped("paper_mixture");
  double sum = 0;
  for (const DataSource& source : language_run(run).data.train) sum += source.weight;
  CHECK(language_run(run).data.train.size() == 7);
  CHECK(sum == Approx(100));
  CHECK_FALSE(language_run(run).data.document_mask);
}

// arXiv 2410.11842: 4M tokens per step; table 3 has LLM-S and LLM-B on 100B tokens. LLM-B on 200B is a
// setting of these (tests/cli/reproduction_rows_test.py).
TEST_CASE("shipped configs: the paper's recipes") {
  struct Recipe {
    const char* name;
    double learning_rate, last_learning_rate;
    std::int64_t warmup_steps;
    double activated;
  };
  constexpr std::int64_t k100B = 100'000'000'000;
  const Recipe recipes[] = {
      {"llm_s", 3e-4, 3e-5, 2000, 1},          {"moh_llm_s_75", 3e-4, 3e-5, 2000, 0.75},
      {"moh_llm_s_50", 3e-4, 3e-5, 2000, 0.5}, {"llm_b", 5e-4, 5e-5, 500, 1},
      {"moh_llm_b_75", 5e-4, 5e-5, 500, 0.75}, {"moh_llm_b_50", 5e-4, 5e-5, 500, 0.5},
  };
  for (const Recipe& recipe : recipes) {
    INFO(recipe.name);
    const RunConfig run = load_shipped(recipe.name);
    CHECK(run.output.dir == "runs/llm/" + std::string(recipe.name));
    CHECK(language_run(run).preset == recipe.name);
    CHECK(activated_heads(routing_of(model_of(run))) == Approx(recipe.activated));
    CHECK(model_of(run).moh.balance_weight == 0.01);
    CHECK(language_run(run).data.sequence_length == 2048);
    CHECK(run.train.batch_size * run.train.accumulate == 2048);
    const std::int64_t tokens_per_step = 2048 * language_run(run).data.sequence_length;
    CHECK(run.train.steps * tokens_per_step >= k100B);
    CHECK((run.train.steps - 1) * tokens_per_step < k100B);
    CHECK(run.schedule.peak == recipe.learning_rate);
    CHECK(run.optim.adamw.weight_decay == 0.1);
    CHECK(run.optim.adamw.clip_grad_norm == 1);
    CHECK(run.schedule.kind == LrSchedule::Kind::kCosine);
    CHECK(run.schedule.minimum == recipe.last_learning_rate);
    CHECK(run.schedule.warmup_start == 1e-7);
    CHECK(run.schedule.warmup_steps == recipe.warmup_steps);
  }
}

TEST_CASE("shipped configs: dense baselines have as many heads as each MoH run has active, and its recipe") {
  for (const std::string name : {"llm_s_75", "llm_s_50", "llm_b_75", "llm_b_50"}) {
    INFO(name);
    RunConfig dense = load_shipped("dense_" + name), routed = load_shipped("moh_" + name);
    CHECK(model_of(dense).heads == computed_heads(routing_of(model_of(routed), 0), false));
    CHECK(model_of(dense).moh.router == routers::kNone);
    const LlamaConfig model = model_of(routed);
    model_of(routed) = model_of(dense);
    language_run(routed).preset = language_run(dense).preset;
    routed.output = dense.output;
    CHECK(print_resolved(dense) == print_resolved(routed));
    CHECK(model.head_dim == model_of(dense).head_dim);
  }
}

TEST_CASE("shipped configs: small dense classifiers have as many heads as the routed ones have active") {
  const auto model_of_images = [](const std::string& name) {
    const fs::path path = source_folder / "configs/vit" / (name + ".yaml");
    return image_run(load_run_config(path.string(), {}, families().configs())).model;
  };
  for (const auto& [dense, routed] : {std::pair{"cifar10_vit_dense_6", "cifar10_vit_moh_75"},
                                      {"cifar10_transnext_dense_42", "cifar10_moh_75"}}) {
    INFO(dense);
    const ImageModelConfig a = model_of_images(dense), b = model_of_images(routed);
    const std::vector<HeadRoutingOptions> layers = routing_of(a), active = routing_of(b);
    REQUIRE(layers.size() == active.size());
    for (std::size_t i = 0; i < layers.size(); ++i)
      CHECK(layers[i].router.heads == computed_heads(active[i], false));
    CHECK(vit_of(a).head_width() == vit_of(b).head_width());
    for (std::size_t s = 0; s < b.transnext.dims.size(); ++s)
      CHECK(a.transnext.head_width(s) == b.transnext.head_width(s));
  }
}

// arXiv 2410.11842, table of LLaMA3-8B's continue-tuning: 16M tokens per step, 300B and 100B of them.
TEST_CASE("shipped configs: the paper's two stages of continue-tuning") {
  struct Stage {
    const char* name;
    double learning_rate, last_learning_rate, tokens, activated;
  };
  for (const Stage& stage : {Stage{"llama3_8b_continue_dense", 6e-5, 6e-6, 300e9, 1},
                             Stage{"moh_llama3_8b", 2e-5, 1e-6, 100e9, 0.75}}) {
    INFO(stage.name);
    const RunConfig run = load_shipped(stage.name);
    const LlamaConfig model = model_of(run);
    CHECK(model.vocab_size == 160896);
    const DryRunScope no_memory;
    CHECK(count_parameters(Llama(model, DType::kFloat32)) == 8297648128);
    CHECK(activated_heads(routing_of(model)) == stage.activated);
    CHECK(language_run(run).data.sequence_length == 8192);
    CHECK(run.train.batch_size * run.train.accumulate == 2048);
    const double tokens_per_step = 2048.0 * 8192;
    CHECK(static_cast<double>(run.train.steps) == std::floor(stage.tokens / tokens_per_step));
    CHECK(run.schedule.peak == stage.learning_rate);
    CHECK(run.optim.adamw.weight_decay == 0.1);
    CHECK(run.optim.adamw.clip_grad_norm == 1);
    CHECK(run.schedule.minimum == stage.last_learning_rate);
    CHECK(run.schedule.warmup_steps == 50);
  }
  const RunConfig moh = load_shipped("moh_llama3_8b");
  CHECK(moh.init.from == load_shipped("llama3_8b_continue_dense").output.dir.string());
  CHECK(model_of(moh).moh.router == routers::kQueryNorm);
  CHECK(model_of(moh).moh.num_shared == 16);
  CHECK(model_of(moh).moh.top_k == 8);
  CHECK(model_of(moh).moh.balance_weight == 0.01);
}

TEST_CASE("shipped configs: MoH-LLaMA3-8B inside KV groups has the paper's counts, as many of each group") {
  RunConfig groups = load_shipped("moh_llama3_8b_within_groups"), paper = load_shipped("moh_llama3_8b");
  for (const HeadRoutingOptions& layer : routing_of(model_of(groups))) {
    CHECK(layer.rule == routings::kWithinGroups);
    CHECK(layer.router.groups == 8);
    CHECK(layer.router.group_routed() == 2);
    CHECK(layer.router.group_top_k() == 1);
    CHECK(std::vector<std::int64_t>(layer.shared_heads.begin(), layer.shared_heads.begin() + 4) ==
          std::vector<std::int64_t>{0, 1, 4, 5});
  }
  model_of(groups).moh.routing = routings::kHeads;
  groups.output = paper.output;
  CHECK(print_resolved(groups) == print_resolved(paper));
}

TEST_CASE("shipped configs: both stages of LLaMA-MoE v2 keep 7 of LLaMA3-8B's 8 KV groups") {
  const RunConfig first = load_shipped("llama_moe_v2_attention");
  RunConfig second = load_shipped("llama_moe_v2_attention_stage2");
  for (const HeadRoutingOptions& layer : routing_of(model_of(first))) {
    CHECK(layer.kind == routers::kLearned);
    CHECK(layer.unit_heads == 4);
    CHECK(layer.router.heads == 8);
    CHECK(layer.router.num_shared == 0);
    CHECK(layer.router.top_k == 7);
  }
  CHECK(activated_heads(routing_of(model_of(first))) == 7.0 / 8);
  CHECK(model_of(first).vocab_size == 128256);
  CHECK(second.init.from == first.output.dir.string());
  const double tokens_per_step = 256.0 * 4096;
  CHECK(static_cast<double>(first.train.steps + second.train.steps) == std::floor(2.5e9 / tokens_per_step));
  for (const RunConfig& stage : {first, second}) {
    CHECK(stage.train.batch_size * stage.train.accumulate == 256);
    CHECK(stage.schedule.peak == 2e-5);
    CHECK(stage.schedule.warmup_steps == std::llround(0.03 * static_cast<double>(stage.train.steps)));
    CHECK(stage.optim.adamw.weight_decay == 0);
  }
  second.init = first.init;
  second.output = first.output;
  second.train = first.train;
  second.schedule = first.schedule;
  language_run(second).data.train = language_run(first).data.train;
  CHECK(print_resolved(second) == print_resolved(first));
}

TEST_CASE("shipped configs: MoH-LLM-S with routed keys is MoH-LLM-S at 50% but for these") {
  RunConfig routed = load_shipped("moh_llm_s_routed_keys"), moh = load_shipped("moh_llm_s_50");
  MohConfig& of_routed = model_of(routed).moh;
  CHECK(of_routed.routed == RoutedRows::kQueriesKeysValues);
  CHECK(of_routed.positions == HeadPositions::kHead);
  CHECK(of_routed.shared_window == 128);
  of_routed.routed = RoutedRows::kQueries;
  of_routed.positions = HeadPositions::kSequence;
  of_routed.shared_window = 0;
  routed.output = moh.output;
  CHECK(print_resolved(routed) == print_resolved(moh));
}

TEST_CASE("shipped configs: small continue-tuning takes a tenth of the dense run's tokens") {
  const RunConfig dense = load_shipped("continue_tuning_dense"), moh = load_shipped("continue_tuning_moh_75");
  const auto tokens = [](const RunConfig& run) {
    return run.train.steps * run.train.batch_size * run.train.accumulate *
           language_run(run).data.sequence_length;
  };
  CHECK(10 * tokens(moh) == tokens(dense));
  CHECK(moh.init.from == dense.output.dir.string());
  CHECK(activated_heads(routing_of(model_of(dense))) == 1);
  CHECK(activated_heads(routing_of(model_of(moh))) == 0.75);
  CHECK(language_run(moh).data.train.at(0).paths == language_run(dense).data.train.at(0).paths);
  CHECK(language_run(moh).data.sequence_length == language_run(dense).data.sequence_length);
}

TEST_CASE("shipped configs: tiny Shakespeare runs differ in their attention only") {
  const RunConfig dense = load_shipped("tiny_shakespeare_dense");
  CHECK(activated_heads(routing_of(model_of(dense))) == 1);
  for (const auto& [name, activated] :
       {std::pair{"tiny_shakespeare_moh_75", 0.75}, std::pair{"tiny_shakespeare_moh_50", 0.5}}) {
    INFO(name);
    RunConfig run = load_shipped(name);
    CHECK(activated_heads(routing_of(model_of(run))) == Approx(activated));
    run.output = dense.output;
    model_of(run).moh = model_of(dense).moh;
    CHECK(print_resolved(run) == print_resolved(dense));
  }
}

TEST_CASE("config reference: docs/config.md is what the field lists say") {
  INFO("docs/config.md is stale; make it anew with: moh config --reference > docs/config.md");
  CHECK(read_file(source_folder / "docs/config.md") == print_reference(families().configs()));
}

}  // namespace
}  // namespace moh
