#include "train/apps/plan/dry_step.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/parallel.h"
#include "tests/support/image_runs.h"
#include "tests/support/language_runs.h"
#include "train/families/families.h"
#include "train/trainer/run/train_step.h"

using namespace moh;

namespace {

RunConfig small_config() {
  RunConfig config = small_language_run();
  model_of(config).layers = 3;
  model_of(config).vocab_size = 2048;
  config.train.batch_size = 3;
  return config;
}

void route(RunConfig& config, RouterKey router, std::int64_t shared, std::int64_t routed) {
  model_of(config).moh.router = router;
  model_of(config).moh.num_shared = shared;
  model_of(config).moh.top_k = routed;
}

/// The counts of the allocator in two real steps.
MemoryStats measured(const RunConfig& config, const MakeTask& make_task) {
  CpuAllocator& allocator = CpuAllocator::instance();
  const MemoryStats before = allocator.stats();
  allocator.reset_peaks();
  MemoryStats stats;
  {
    const std::unique_ptr<Task> task = make_task(config);
    AdamW optimizer(task->model(), config.optim.adamw);
    TrainStep step(*task, optimizer, config);
    task->seek(0, {});
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
  const MakeTask make_task = synthetic_tasks(families().of(config));
  const MemoryStats real = measured(config, make_task), plan = plan_memory(config, make_task).stats;
  check_near(plan.total.peak_bytes, real.total.peak_bytes);
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    INFO(memory_purpose_name(purpose));
    if (purpose == MemoryPurpose::kData && config.task != LanguageRun::kTask) {
      // How many batches are made ahead is a matter of time; the plan has as many as there can be.
      CHECK(plan.by_purpose[i].peak_bytes >= real.by_purpose[i].peak_bytes);
      continue;
    }
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

TEST_CASE("plan: memory of gradients in bfloat16, and of updates within the backward pass") {
  RunConfig config = small_config();
  config.precision = Precision::kBFloat16;
  config.optim.adamw.gradients = Precision::kBFloat16;
  config.train.accumulate = 2;
  check_plan(config);
  config.train.accumulate = 1;
  config.optim.adamw.clip_grad_norm = 0;
  const auto gradients_of = [](const RunConfig& run) {
    return plan_memory(run, synthetic_tasks(language_family())).stats.of(MemoryPurpose::kGradient).peak_bytes;
  };
  const std::int64_t kept = gradients_of(config);
  config.optim.adamw.fused_update = true;
  check_plan(config);
  config.optim.adamw.gradients = Precision::kFloat32;
  check_plan(config);
  CHECK(gradients_of(config) < kept);  // some in float32 at a time, all in bfloat16
  config.precision = Precision::kFloat32;
  model_of(config).tied_embeddings = true;
  model_of(config).recompute = RecomputeLevel::kLayer;
  check_plan(config);
}

TEST_CASE("plan: memory of MoH-50 with projections of chosen heads") {
  RunConfig config = small_config();
  route(config, routers::kLearned, 1, 1);
  check_plan(config);
}

TEST_CASE("plan: memory with recomputed layers, grouped KV heads, tied embeddings, micro-batches") {
  RunConfig config = small_config();
  model_of(config).kv_heads = 2;
  model_of(config).tied_embeddings = true;
  model_of(config).recompute = RecomputeLevel::kLayer;
  config.train.accumulate = 3;
  check_plan(config);
  model_of(config).recompute = RecomputeLevel::kMlpAndAttention;
  check_plan(config);
}

TEST_CASE("plan: memory of query-norm routing with all gradients, dropout, bfloat16 and recomputed layers") {
  RunConfig config = small_config();
  route(config, routers::kQueryNorm, 1, 2);
  model_of(config).moh.straight_through = StraightThrough::kAll;
  model_of(config).dropout = 0.1;
  config.precision = Precision::kBFloat16;
  model_of(config).recompute = RecomputeLevel::kLayer;
  config.train.accumulate = 2;
  check_plan(config);
}

TEST_CASE("plan: memory with frozen parameters, which have neither gradients nor state") {
  RunConfig config = small_config();
  route(config, routers::kLearned, 1, 2);
  config.optim.adamw.groups = {{.match = {"*"}, .freeze = true},
                               {.match = {"*.wg*.weight", "*.q_proj.weight"}}};
  check_plan(config);
  const MakeTask make_task = synthetic_tasks(language_family());
  RunConfig all = config;
  all.optim.adamw.groups = {};
  const DryStep some = dry_step(config, make_task), whole = dry_step(all, make_task);
  CHECK(some.parameters == whole.parameters);
  CHECK(whole.frozen_parameters == 0);
  // Routers [2, 2, 1] x 128 each, without wg_1 for one shared head: wg [3, 128], wg_0 [2, 128]; and the
  // queries.
  CHECK(some.parameters - some.frozen_parameters == 3 * (5 * 128 + 128 * 128));
  CHECK(some.forward_flops == whole.forward_flops);
  CHECK(some.flops < 0.75 * whole.flops);
  const auto optimizer = static_cast<std::size_t>(MemoryPurpose::kOptimizer);
  CHECK(some.memory.stats.by_purpose[optimizer].peak_bytes <
        whole.memory.stats.by_purpose[optimizer].peak_bytes / 10);
}

TEST_CASE("plan: memory of a step with a teacher") {
  for (const TeacherKind teacher : {TeacherKind::kTwin, TeacherKind::kSource}) {
    RunConfig config = small_config();
    route(config, routers::kLearned, 1, 1);
    config.init.from = "a checkpoint that is not read";
    config.init.distill = {.weight = 1, .temperature = 2, .teacher = teacher};
    config.train.accumulate = 2;
    check_plan(config);
  }
}

TEST_CASE(
    "plan: where K is annealed, the memory is that of the worst step, and operations are those after it") {
  RunConfig config = small_config();
  route(config, routers::kLearned, 1, 1);
  const MakeTask make_task = synthetic_tasks(language_family());
  const StepFlops target = step_flops(config, make_task);
  const std::int64_t least = plan_memory(config, make_task).needed_bytes();
  model_of(config).moh.top_k_anneal_until = 0.5;
  check_plan(config);
  CHECK(step_flops(config, make_task).routed == target.routed);
  CHECK(dry_step(config, make_task, DryStepAt::kStart).flops > target.routed);
  CHECK(plan_memory(config, make_task).needed_bytes() >= least);
}

TEST_CASE("plan: memory of routed groups") {
  RunConfig config = small_config();
  model_of(config).kv_heads = 2;
  route(config, routers::kLearned, 0, 1);
  model_of(config).moh.routing = routings::kGroups;
  check_plan(config);
}

TEST_CASE("plan: memory and operations of heads inside KV groups") {
  RunConfig config = small_config();
  model_of(config).kv_heads = 2;
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    route(config, router, 0, 2);
    model_of(config).moh.routing = routings::kWithinGroups;
    check_plan(config);
  }
  const MakeTask make_task = synthetic_tasks(language_family());
  const double slots = step_flops(config, make_task).routed;
  model_of(config).moh.routing = routings::kHeads;
  CHECK(slots == Approx(step_flops(config, make_task).routed).epsilon(0.01));
  model_of(config).moh.router = routers::kLearned;
  model_of(config).moh.routing = routings::kGqe;
  check_plan(config);
}

TEST_CASE("plan: memory of models with gates") {
  for (const AttentionGate gate : {AttentionGate::kHead, AttentionGate::kElement}) {
    RunConfig config = small_config();
    model_of(config).attention_gate = gate;
    check_plan(config);
    route(config, routers::kLearned, 1, 2);
    check_plan(config);
  }
}

TEST_CASE("plan: memory of models with experts, all of them projected, and the selected alone") {
  RunConfig config = small_config();
  model_of(config).switch_head = {4, 4};
  check_plan(config);
  model_of(config).switch_head = {4, 2};
  check_plan(config);
  model_of(config).recompute = RecomputeLevel::kLayer;
  config.precision = Precision::kBFloat16;
  check_plan(config);
}

TEST_CASE("plan: memory of classifiers of images") {
  RunConfig vit = small_image_run(ImageArchitecture::kVit);
  images_of(vit).model.image_size = 48;
  images_of(vit).model.drop_path = 0.1;
  vit.train.batch_size = 6;
  vit.ema.decay = 0.99;
  check_plan(vit);
  vit.precision = Precision::kBFloat16;
  vit.train.accumulate = 2;
  check_plan(vit);
  images_of(vit).model.recompute = RecomputeLevel::kMlpAndAttention;
  check_plan(vit);

  RunConfig transnext = small_image_run(ImageArchitecture::kTransNext);
  images_of(transnext).model.image_size = 48;
  images_of(transnext).model.transnext.experts = 2;
  transnext.train.batch_size = 6;
  check_plan(transnext);
  transnext.train.accumulate = 3;
  for (const RecomputeLevel level : {RecomputeLevel::kLayer, RecomputeLevel::kMlpAndAttention}) {
    images_of(transnext).model.recompute = level;
    check_plan(transnext);
  }
}

TEST_CASE("plan: memory when layers route differently, and keys are cut into ranges") {
  RunConfig config = small_config();
  route(config, routers::kLearned, 0, 0);
  model_of(config).moh.num_shared.each = {0, 1, 4};
  model_of(config).moh.top_k.each = {2, 1, 0};
  model_of(config).max_positions = 1200;
  language_run(config).data.sequence_length = 1100;
  config.train.batch_size = 1;
  check_plan(config);
}

TEST_CASE("plan: memory with shared heads that are listed, one in each group of a KV head") {
  RunConfig config = small_config();
  model_of(config).heads = 8;
  model_of(config).kv_heads = 2;
  model_of(config).head_dim = 32;
  route(config, routers::kLearned, 2, 1);
  language_run(config).data.sequence_length = 1200;
  model_of(config).max_positions = 1200;
  config.train.batch_size = 2;
  check_plan(config);
  const auto workspace = [&] {
    return plan_memory(config, synthetic_tasks(language_family()))
        .stats.of(MemoryPurpose::kWorkspace)
        .peak_bytes;
  };
  const std::int64_t of_first = workspace();
  model_of(config).moh.shared_heads.each = {{1, 6}, {0, 4}, {3, 7}};
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
  const MemoryPlan plan = plan_memory(config, synthetic_tasks(language_family()));
  const std::int64_t parameters = plan.stats.of(MemoryPurpose::kParameter).peak_bytes / 2;
  CHECK(plan.stats.of(MemoryPurpose::kGradient).peak_bytes == 4 * parameters);
  CHECK(plan.stats.of(MemoryPurpose::kOptimizer).peak_bytes == 12 * parameters);
  CHECK(plan.stats.of(MemoryPurpose::kData).peak_bytes ==
        2 * 8 * 3 * 160 + 8);  // tokens and targets, and their number
  CHECK(plan.stats.of(MemoryPurpose::kWorkspace).peak_bytes < std::int64_t{34} << 20);
}

TEST_CASE("plan: evaluation keeps the gradients, and no activations") {
  RunConfig config = small_config();
  const MemoryPlan plan = plan_memory(config, synthetic_tasks(language_family()));
  const std::int64_t parameters = plan.stats.of(MemoryPurpose::kParameter).peak_bytes;
  CHECK(plan.evaluation_bytes > 4 * parameters);
  CHECK(plan.evaluation_bytes < plan.stats.total.peak_bytes);
  CHECK(plan.needed_bytes() == plan.stats.total.peak_bytes);
}
