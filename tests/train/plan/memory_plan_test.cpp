#include "train/plan/memory_plan.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/parallel.h"
#include "train/bench/random_tokens.h"
#include "train/tasks/language_model.h"
#include "train/trainer/trainer.h"

using namespace moh;

namespace {

RunConfig small_config() {
  RunConfig config;
  config.model.layers = 3;
  config.model.hidden = 128;
  config.model.intermediate = 352;
  config.model.heads = 4;
  config.model.vocab_size = 2048;
  config.model.max_positions = 256;
  config.data.sequence_length = 160;
  config.train.batch_size = 3;
  return config;
}

void route(RunConfig& config, RouterChoice router, std::int64_t shared, std::int64_t routed) {
  config.model.moh.router = router;
  config.model.moh.shared.every = shared;
  config.model.moh.routed.every = routed;
}

/// What the allocator counts in two real steps.
MemoryStats measured(const RunConfig& config) {
  CpuAllocator& allocator = CpuAllocator::instance();
  const MemoryStats before = allocator.stats();
  allocator.reset_peaks();
  MemoryStats stats;
  {
    LanguageModelTask task(config, random_language_data(config.model.vocab_size, 1));
    AdamW optimizer(task.model().parameters(), adamw_options_of(config.optim));
    TrainStep step(task, optimizer, config);
    task.seek(0);
    for (std::int64_t i = 0; i < 2; ++i) {
      step.begin(i, 1e-4);
      step.finish();
    }
    stats = allocator.stats();
  }
  stats.total.peak_bytes -= before.total.current_bytes;
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    stats.by_purpose[i].peak_bytes -= before.by_purpose[i].current_bytes;
  }
  return stats;
}

void check_near(std::int64_t planned, std::int64_t measured) {
  CHECK(static_cast<double>(planned) == Approx(static_cast<double>(measured)).epsilon(0.05));
}

void check_plan(const RunConfig& config) {
  set_num_threads(2);
  const MemoryStats real = measured(config), plan = plan_memory(config).stats;
  check_near(plan.total.peak_bytes, real.total.peak_bytes);
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    INFO(memory_purpose_name(static_cast<MemoryPurpose>(i)));
    check_near(plan.by_purpose[i].peak_bytes, real.by_purpose[i].peak_bytes);
  }
}

}  // namespace

TEST_CASE("plan: memory of a dense step, by purpose") {
  check_plan(small_config());
}

TEST_CASE("plan: memory of a step in bfloat16: masters, and what products widen") {
  RunConfig config = small_config();
  config.precision = Precision::kBFloat16;
  check_plan(config);
}

TEST_CASE("plan: memory of MoH-50 with projections of chosen heads") {
  RunConfig config = small_config();
  route(config, RouterChoice::kLearned, 1, 1);
  check_plan(config);
}

TEST_CASE("plan: memory with recomputed layers, grouped KV heads, tied embeddings, micro-batches") {
  RunConfig config = small_config();
  config.model.kv_heads = 2;
  config.model.tied_embeddings = true;
  config.model.recompute = RecomputeLevel::kLayer;
  config.train.accumulate = 3;
  check_plan(config);
}

TEST_CASE("plan: memory of query-norm routing with all gradients, dropout, bfloat16 and recomputed layers") {
  RunConfig config = small_config();
  route(config, RouterChoice::kQueryNorm, 1, 2);
  config.model.moh.straight_through = StraightThroughChoice::kAll;
  config.model.dropout = 0.1;
  config.precision = Precision::kBFloat16;
  config.model.recompute = RecomputeLevel::kLayer;
  config.train.accumulate = 2;
  check_plan(config);
}

TEST_CASE("plan: memory when layers route differently, and keys are cut into ranges") {
  RunConfig config = small_config();
  route(config, RouterChoice::kLearned, 0, 0);
  config.model.moh.shared.each = {0, 1, 4};
  config.model.moh.routed.each = {2, 1, 0};
  config.model.max_positions = 1200;
  config.data.sequence_length = 1100;
  config.train.batch_size = 1;
  check_plan(config);
}

TEST_CASE("plan: memory with shared heads that are listed, one in each group of a KV head") {
  RunConfig config = small_config();
  config.model.heads = 8;
  config.model.kv_heads = 2;
  config.model.head_dim = 32;
  route(config, RouterChoice::kLearned, 2, 1);
  config.data.sequence_length = 1200;
  config.model.max_positions = 1200;
  config.train.batch_size = 2;
  check_plan(config);
  const auto workspace = [&] { return plan_memory(config).stats.of(MemoryPurpose::kWorkspace).peak_bytes; };
  const std::int64_t of_first = workspace();
  config.model.moh.shared_heads.each = {{1, 6}, {0, 4}, {3, 7}};
  check_plan(config);
  // The longest list holds one shared head instead of two.
  CHECK(static_cast<double>(workspace()) < 0.85 * static_cast<double>(of_first));
}

TEST_CASE("plan: a product of few rows is turned") {
  RunConfig config = small_config();
  config.train.batch_size = 1;
  check_plan(config);
}

TEST_CASE("plan: memory on a GPU that is not there: gradients have places, bfloat16 is not widened") {
  RunConfig config = small_config();
  config.precision = Precision::kBFloat16;
  config.device = {Device::Type::kCuda, 0};
  const MemoryPlan plan = plan_memory(config);
  const std::int64_t parameters = plan.stats.of(MemoryPurpose::kParameter).peak_bytes / 2;
  CHECK(plan.stats.of(MemoryPurpose::kGradient).peak_bytes == 4 * parameters);
  CHECK(plan.stats.of(MemoryPurpose::kOptimizer).peak_bytes == 12 * parameters);
  CHECK(plan.stats.of(MemoryPurpose::kData).peak_bytes == 2 * 8 * 3 * 160);
  CHECK(plan.stats.of(MemoryPurpose::kWorkspace).peak_bytes < std::int64_t{34} << 20);
}

TEST_CASE("plan: evaluation keeps the gradients, and no activations") {
  RunConfig config = small_config();
  const MemoryPlan plan = plan_memory(config);
  const std::int64_t parameters = plan.stats.of(MemoryPurpose::kParameter).peak_bytes;
  CHECK(plan.evaluation_bytes > 4 * parameters);
  CHECK(plan.evaluation_bytes < plan.stats.total.peak_bytes);
  CHECK(plan.needed_bytes() == plan.stats.total.peak_bytes);
}
