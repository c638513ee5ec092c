#include "train/apps/plan/plan_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/language_runs.h"
#include "tests/support/message_of.h"

using namespace moh;

namespace {

MakeTask language_tasks() {
  return synthetic_tasks(language_family());
}

RunConfig llama3_8b() {
  RunConfig config = default_language_run();
  language_run(config).begin_with_preset("llama3_8b");
  config.device = {Device::Type::kCuda, 0};
  config.precision = Precision::kBFloat16;
  language_run(config).data.sequence_length = 8192;
  config.train.batch_size = 1;
  config.train.accumulate = 16;
  config.train.steps = 1000;
  return config;
}

}  // namespace

TEST_CASE("plan: LLaMA3-8B is far larger than this machine, and 18 bytes a parameter before activations") {
  const TrainingPlan plan = plan_training(
      llama3_8b(), {.gpus = 8, .memory_bytes = 80'000'000'000, .mfu = 0.4, .peak = PeakRate{989, ""}},
      language_tasks());
  CHECK(plan.step.parameters == 8'030'261'248);
  const auto& at_peak = plan.configured().memory.at_peak;
  CHECK(at_peak[0] + at_peak[1] + at_peak[2] == 18 * plan.step.parameters);
  CHECK_FALSE(plan.fits(plan.memory[0]));
  CHECK_FALSE(plan.fits(plan.memory.back()));
  CHECK(plan.memory.back().largest_batch == 0);
  CHECK(plan.memory.back().memory.needed_bytes() < plan.memory[0].memory.needed_bytes());
  CHECK(plan.items_per_step() == 16 * 8192);  // they share the samples of the step
  CHECK(plan.config.train.accumulate == 2);
  CHECK(plan.config.train.batch_size == 1);
  REQUIRE(plan.time);
  CHECK(plan.time->items_per_s == Approx(8 * 0.4 * 989e12 / plan.flops_per_item.routed));
  CHECK(plan.time->seconds == Approx(1000.0 * 16 * 8192 / plan.time->items_per_s));
}

TEST_CASE("plan: eight GPUs of 80 GB train an 8B model in bfloat16 when they divide the optimiser's state") {
  const PlanOptions options{.gpus = 8, .zero = 1, .memory_bytes = 80'000'000'000};
  const TrainingPlan plan = plan_training(llama3_8b(), options, language_tasks());
  const auto optimizer = static_cast<std::size_t>(MemoryPurpose::kOptimizer);
  CHECK(plan.memory.back().memory.at_peak[optimizer] ==
        Approx(12.0 / 8 * static_cast<double>(plan.step.parameters)).epsilon(0.01));
  CHECK(plan.fits(plan.memory.back()));
  CHECK_THROWS_AS(plan_training(llama3_8b(), {.gpus = 8, .zero = 4}, language_tasks()), ValueError);
}

TEST_CASE("plan: one GPU of 141 GB trains an 8B model in bfloat16 with narrow gradients, or fused updates") {
  const PlanOptions options{.memory_bytes = 141'000'000'000};
  RunConfig config = llama3_8b();
  const auto plan = [&] { return plan_training(config, options, language_tasks()); };
  const auto bytes_per_parameter = [](const TrainingPlan& of) {
    const auto& at_peak = of.memory.back().memory.at_peak;
    return static_cast<double>(at_peak[0] + at_peak[1] + at_peak[2]) /
           static_cast<double>(of.step.parameters);
  };
  CHECK_FALSE(plan().fits(plan().memory.back()));
  config.optim.adamw.gradients = Precision::kBFloat16;
  CHECK(plan().fits(plan().memory.back()));
  CHECK(bytes_per_parameter(plan()) == Approx(16));
  config.optim.adamw.gradients = Precision::kFloat32;
  config.optim.adamw.fused_update = true;
  config.optim.adamw.clip_grad_norm = 0;
  config.train.accumulate = 1;
  CHECK(plan().fits(plan().memory.back()));
  CHECK(bytes_per_parameter(plan()) < 14.5);  // the largest gradient is there when memory is at its peak
  config.train.accumulate = 2;
  CHECK_THAT(message_of<ConfigError>([&] { plan(); }),
             Catch::Contains("train.accumulate: expected 1 with optim.fused_update: true"));
}

TEST_CASE("plan: fused updates of eight GPUs keep the gradients of a few buckets") {
  RunConfig config = llama3_8b();
  config.optim.adamw.clip_grad_norm = 0;
  config.train.accumulate = 8;
  const auto memory = [&](std::int64_t zero) {
    return plan_training(config, {.gpus = 8, .zero = zero}, language_tasks()).memory.front().memory;
  };
  constexpr auto kGradient = static_cast<std::size_t>(MemoryPurpose::kGradient);
  const double largest = 4 * 128256.0 * 4096;  // float32; of the logits' weights
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    INFO("comm.zero " << zero);
    config.optim.adamw.fused_update = false;
    const MemoryPlan apart = memory(zero);
    config.optim.adamw.fused_update = true;
    const MemoryPlan fused = memory(zero);
    const auto kept = static_cast<double>(fused.stats.by_purpose[kGradient].peak_bytes);
    CHECK(kept > largest);
    CHECK(kept < 2 * largest);
    CHECK(fused.needed_bytes() < apart.needed_bytes());
  }
}

TEST_CASE("plan: divided gradients and weights are an eighth, and the whole ones of a few buckets") {
  const auto memory = [](std::int64_t zero) {
    return plan_training(llama3_8b(), {.gpus = 8, .zero = zero}, language_tasks()).memory;
  };
  const std::vector<MemoryChoice> whole = memory(1), divided = memory(2);
  const auto peak_of = [](const std::vector<MemoryChoice>& choices, MemoryPurpose purpose) {
    return choices.front().memory.stats.by_purpose[static_cast<std::size_t>(purpose)].peak_bytes;
  };
  CHECK(peak_of(divided, MemoryPurpose::kOptimizer) == peak_of(whole, MemoryPurpose::kOptimizer));
  const double all = 4 * 8030261248.0, largest = 4 * 128256.0 * 4096;  // float32; of the logits' weights
  CHECK(peak_of(whole, MemoryPurpose::kGradient) == Approx(all).epsilon(0.001));
  const auto kept = static_cast<double>(peak_of(divided, MemoryPurpose::kGradient));
  CHECK(kept > all / 8 + largest);
  CHECK(kept < all / 8 + 2 * largest);
  const std::vector<MemoryChoice> weights = memory(3);
  CHECK(weights.front().memory.needed_bytes() < divided.front().memory.needed_bytes());
  CHECK(peak_of(weights, MemoryPurpose::kOptimizer) == peak_of(whole, MemoryPurpose::kOptimizer));
}

TEST_CASE("plan: gradients in bfloat16 are half of what eight GPUs hold of them") {
  RunConfig config = llama3_8b();
  const PlanOptions options{.gpus = 8, .zero = 1, .memory_bytes = 80'000'000'000};
  const TrainingPlan wide = plan_training(config, options, language_tasks());
  config.optim.adamw.gradients = Precision::kBFloat16;
  const TrainingPlan narrow = plan_training(config, options, language_tasks());
  CHECK(narrow.fits(narrow.memory.back()));
  CHECK(wide.memory.back().memory.needed_bytes() - narrow.memory.back().memory.needed_bytes() ==
        2 * wide.step.parameters);
  // Without layers computed again, too: norms and activations alone, which take no product of matrices.
  const MemoryChoice* const least = narrow.least_recomputing();
  REQUIRE(least != nullptr);
  CHECK(least->recompute == RecomputeLevel::kNorms);
  CHECK(least->memory.recomputed == Approx(0).margin(1e-9));
  CHECK_FALSE(narrow.fits(narrow.memory.front()));
  // Gate and up of each layer; a third of all but the logits.
  const double gate_and_up = 32 * 2 * 4096.0 * 2 * 14336;
  CHECK(narrow.memory[2].memory.recomputed ==
        Approx(gate_and_up / narrow.flops_per_item.routed).epsilon(0.001));
  const double logits = 3 * 2 * 4096.0 * 128256;
  CHECK(narrow.memory.back().memory.recomputed ==
        Approx((1 - logits / narrow.flops_per_item.routed) / 3).epsilon(0.001));
}

TEST_CASE(
    "plan: several devices share the samples of a step, by whole micro-batches where that is possible") {
  RunConfig config = small_language_run();
  for (const auto& [batch, accumulate, gpus, batch_of_each, accumulate_of_each] :
       {std::array<std::int64_t, 5>{4, 6, 3, 4, 2}, {4, 1, 2, 2, 1}, {6, 2, 4, 3, 1}, {4, 3, 2, 3, 2}}) {
    config.train.batch_size = batch;
    config.train.accumulate = accumulate;
    const std::int64_t one = plan_training(config, {}, language_tasks()).items_per_step();
    const TrainingPlan plan = plan_training(config, {.gpus = gpus}, language_tasks());
    CHECK(plan.items_per_step() == one);
    CHECK(plan.config.train.batch_size == batch_of_each);
    CHECK(plan.config.train.accumulate == accumulate_of_each);
  }
}

TEST_CASE("plan: the largest batch fits, and one more does not") {
  RunConfig config = llama3_8b();
  language_run(config).begin_with_preset("moh_llm_s_50");
  language_run(config).data.sequence_length = 2048;
  const PlanOptions options{.memory_bytes = 80'000'000'000};
  const TrainingPlan plan = plan_training(config, options, language_tasks());
  CHECK_FALSE(plan.time.has_value());
  CHECK(plan.step.activated_heads == 0.5);
  CHECK(plan.flops_per_item.routed < plan.flops_per_item.dense);
  for (const MemoryChoice& choice : plan.memory) {
    REQUIRE(choice.largest_batch > 1);
    model_of(config).recompute = choice.recompute;
    config.train.batch_size = choice.largest_batch;
    CHECK(plan_memory(config, language_tasks()).needed_bytes() <= *options.memory_bytes);
    ++config.train.batch_size;
    CHECK(plan_memory(config, language_tasks()).needed_bytes() > *options.memory_bytes);
  }
}

TEST_CASE("plan: options are read and refused by name") {
  CHECK(parse_memory("141GB", "--gpu-memory") == 141'000'000'000);
  CHECK(parse_memory("79.5 GiB", "--gpu-memory") == 85'362'475'008);
  CHECK(parse_memory("24e9", "--gpu-memory") == 24'000'000'000);
  for (const char* wrong : {"", "GB", "141gb", "-1GB", "nan", "1e30", "0"}) {
    CHECK_THROWS_AS(parse_memory(wrong, "--gpu-memory"), ValueError);
  }
  CHECK(parse_peak("312.5", DType::kFloat32, "--peak-tflops").tflops == 312.5);
  CHECK(parse_peak("H100", DType::kBFloat16, "--peak-tflops").tflops == 989);
  CHECK(parse_peak("H100", DType::kFloat32, "--peak-tflops").tflops == 67);
  CHECK(parse_peak("H100", DType::kFloat32, "--peak-tflops", /*tf32=*/true).tflops == 495);
  CHECK(parse_peak("NVIDIA A100-SXM4-40GB", DType::kFloat32, "--peak-tflops", true).tflops == 156);
  CHECK(parse_peak("H100", DType::kFloat32, "--peak-tflops").hint ==
        "tf32: true has 495, precision: bfloat16 989");
  CHECK(parse_peak("H100", DType::kBFloat16, "--peak-tflops").hint.empty());
  CHECK_THAT(
      message_of<ValueError>([] { parse_peak("Z80", DType::kFloat32, "--peak-tflops"); }),
      Catch::Contains("expected TFLOP/s, or H100, H200 or A100, whose rates are published for bfloat16, "
                      "TF32 and float32, found Z80; give the number that your GPU reaches in the run's "
                      "precision, which is float32 without tensor cores"));
  CHECK_THROWS_AS(parse_peak("0", DType::kFloat32, "--peak-tflops"), ValueError);
  const std::string message =
      message_of<ValueError>([] { plan_training(RunConfig{}, {.mfu = 1.5}, language_tasks()); });
  CHECK(message.find("moh plan: --mfu: expected a share above 0, at most 1, found 1.5") == 0);
  CHECK_THROWS_AS(plan_training(RunConfig{}, {.gpus = 0}, language_tasks()), ValueError);
  CHECK_THAT(message_of<ValueError>([] { plan_training(llama3_8b(), {.gpus = 3}, language_tasks()); }),
             Catch::Contains("--gpus: expected a divisor of the samples of a step, train.batch_size 1 x "
                             "train.accumulate 16, found 3"));
}

TEST_CASE("plan: the table says what would fit") {
  std::ostringstream out;
  write_table(out, plan_training(llama3_8b(), {.gpus = 8, .memory_bytes = 80'000'000'000}, language_tasks()));
  for (const char* text : {"8.03G, bfloat16", "none *", "does not fit in 74.5 GiB as configured",
                           "smallest possible", "all of the optimiser's state, which --zero 1 would divide",
                           "no time estimate without --peak-tflops"}) {
    INFO(text);
    CHECK(out.str().find(text) != std::string::npos);
  }
}

TEST_CASE("plan: the table says that comm.zero divides nothing for a single device") {
  RunConfig config = small_language_run();
  const auto table = [&config](const PlanOptions& options) {
    std::ostringstream out;
    write_table(out, plan_training(config, options, language_tasks()));
    return out.str();
  };
  const std::string without = table({});
  CHECK_THAT(without, !Catch::Contains("comm.zero"));
  config.comm.zero = 1;
  CHECK(table({}) ==
        without +
            "\ncomm.zero: 1 divides the optimiser's state among processes, and this is the plan of a "
            "single one, with all of it; --devices N plans each of N.\n");
  CHECK_THAT(table({.gpus = 2}), Catch::Contains("1/2 of the optimiser's state (comm.zero: 1)"));
  CHECK_THAT(table({.gpus = 2, .zero = 2}),
             Catch::Contains("the model, and 1/2 of the optimiser's state and gradients (comm.zero: 2)"));
  config.device = {Device::Type::kCuda, 0};
  CHECK_THAT(table({}), Catch::Contains("; --gpus N plans each of N."));
}

TEST_CASE("plan: checkpoints are those that are kept, and the one that is being written") {
  RunConfig config = small_language_run();
  config.train.steps = 100;
  config.checkpoint = {.every = 10, .keep_last = 2, .keep_best = false};
  const auto disk = [&](const PlanOptions& options = {}) {
    return plan_training(config, options, language_tasks()).disk();
  };
  const DiskPlan without = disk();
  const std::int64_t parameters = plan_training(config, {}, language_tasks()).step.parameters;
  CHECK(without.bytes == 12 * parameters);  // float32: weights and two moments
  CHECK(without.most == 3);
  config.checkpoint.keep_best = true;
  config.checkpoint.keep = {20, 30, 30, 200};  // the last one is never reached
  CHECK(disk().most == 6);
  config.precision = Precision::kBFloat16;
  config.ema.decay = 0.9;
  CHECK(disk().bytes == (2 + 4 + 8 + 4) * parameters);
  CHECK(disk({.gpus = 2, .zero = 1}).bytes == disk().bytes);
  config.checkpoint = {.every = 0, .keep_last = 5, .keep_best = false};
  CHECK(disk().most == 2);  // there is one at the end
  CHECK(DiskPlan{3, 4}.total() == 12);
  CHECK(DiskPlan{std::int64_t{1} << 56, 1 << 20}.total() == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("plan: shared heads that a rule would measure are planned as the first ones") {
  RunConfig config = small_language_run();
  MohConfig& moh = *config.family->moh();
  moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1};
  const DryStep first = plan_training(config, {}, language_tasks()).step;
  for (const HeadRule rule : {HeadRule::kOutputNorm, HeadRule::kLossIncrease}) {
    moh.shared_heads.rule = rule;
    const TrainingPlan plan = plan_training(config, {}, language_tasks());
    CHECK(plan.step.parameters == first.parameters);
    CHECK(plan.step.flops == first.flops);
    CHECK(plan.step.memory.needed_bytes() == first.memory.needed_bytes());
    CHECK(plan.step.activated_heads == first.activated_heads);
  }
}
