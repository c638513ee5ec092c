// Plans of model.recompute: what each setting keeps, and which one is chosen.

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "core/error.h"
#include "tests/support/language_runs.h"
#include "tests/support/message_of.h"
#include "train/apps/plan/plan_report.h"
#include "train/apps/plan/training_plan.h"
#include "train/families/families.h"
#include "train/trainer/config/load_run_config.h"

using namespace moh;

namespace {

const MemoryPlan& memory_of(const TrainingPlan& plan, RecomputeLevel level) {
  return plan.memory.at(static_cast<std::size_t>(level)).memory;
}

std::int64_t activations_of(const TrainingPlan& plan, RecomputeLevel level) {
  const auto purpose = static_cast<std::size_t>(MemoryPurpose::kActivation);
  return memory_of(plan, level).stats.by_purpose[purpose].peak_bytes;
}

MakeTask tasks_of(const RunConfig& run) {
  return synthetic_tasks(families().of(run));
}

/// A run of few layers, of which a whole one takes more than what the parts of both keep.
RunConfig shallow_run() {
  RunConfig config = small_language_run();
  model_of(config).intermediate = 1024;
  model_of(config).vocab_size = 256;
  model_of(config).max_positions = language_run(config).data.sequence_length = 512;
  config.train.batch_size = 8;
  return config;
}

}  // namespace

TEST_CASE("plan: the MLP and attention computed again keep less than either alone, in all families") {
  for (const char* name : {"bench/llama_384", "vit/cifar10_vit_moh_75", "vit/cifar10_transnext_dense",
                           "dit/cifar10_moh_75", "translation/small_moh_75"}) {
    INFO(name);
    const std::string path = std::string(MOH_SOURCE_DIR) + "/configs/" + name + ".yaml";
    const RunConfig run = load_run_config(path, {}, families().configs(), ConfigUse::kModel);
    const TrainingPlan plan = plan_training(run, {}, tasks_of(run));
    REQUIRE(plan.memory.size() == kRecomputeLevels.size());
    const std::int64_t both = activations_of(plan, RecomputeLevel::kMlpAndAttention);
    CHECK(both < activations_of(plan, RecomputeLevel::kMlp));
    CHECK(both < activations_of(plan, RecomputeLevel::kAttention));
    // The sum of both parts; TransNeXt's convolution, which is in `norms`, counts once.
    const double again = memory_of(plan, RecomputeLevel::kMlpAndAttention).recomputed;
    CHECK(memory_of(plan, RecomputeLevel::kMlp).recomputed > 0.05);
    CHECK(again == Approx(memory_of(plan, RecomputeLevel::kMlp).recomputed +
                          memory_of(plan, RecomputeLevel::kAttention).recomputed -
                          memory_of(plan, RecomputeLevel::kNorms).recomputed));
    CHECK(again < memory_of(plan, RecomputeLevel::kLayer).recomputed);
  }
}

TEST_CASE("plan: both parts are chosen where either alone needs too much") {
  RunConfig config = shallow_run();
  model_of(config).layers = 8;
  const TrainingPlan plan = plan_training(config, {}, tasks_of(config));
  const std::int64_t both = memory_of(plan, RecomputeLevel::kMlpAndAttention).needed_bytes();
  CHECK(choose_recompute(config, 1, both, tasks_of(config)).recompute == RecomputeLevel::kMlpAndAttention);
  const std::int64_t one = std::min(memory_of(plan, RecomputeLevel::kMlp).needed_bytes(),
                                    memory_of(plan, RecomputeLevel::kAttention).needed_bytes());
  REQUIRE(both < one);
  CHECK(choose_recompute(config, 1, one, tasks_of(config)).recompute != RecomputeLevel::kMlpAndAttention);
}

TEST_CASE("plan: the setting of least memory is found, and named, where it is not that of whole layers") {
  RunConfig config = shallow_run();
  const TrainingPlan plan = plan_training(config, {.memory_bytes = 1}, tasks_of(config));
  const std::int64_t both = memory_of(plan, RecomputeLevel::kMlpAndAttention).needed_bytes();
  REQUIRE(both < memory_of(plan, RecomputeLevel::kLayer).needed_bytes());
  CHECK_THAT(message_of<ConfigError>([&] { choose_recompute(config, 1, both - 1, tasks_of(config)); }),
             Catch::Contains("or more, with model.recompute: [mlp, attention]"));
  config.train.batch_size = 1;
  for (const LeastMemory& least : plan.least) {
    config.precision = least.precision;
    for (const RecomputeLevel level : kRecomputeLevels) {
      model_of(config).recompute = level;
      const std::int64_t needed = plan_memory(config, tasks_of(config)).needed_bytes();
      CHECK(least.bytes <= needed);
      CHECK((level != least.recompute || least.bytes == needed));
    }
  }
  std::ostringstream out;
  write_table(out, plan);
  CHECK_THAT(out.str(), Catch::Contains("\nsmallest possible, with train.batch_size: 1: float32 "));
  CHECK_THAT(out.str(), Catch::Contains(" (model.recompute: [mlp, attention])"));
}
