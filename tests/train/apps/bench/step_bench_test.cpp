#include "train/apps/bench/step_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/language_runs.h"

using namespace moh;

namespace {

RunConfig tiny_config() {
  RunConfig config = default_language_run();
  model_of(config).layers = 2;
  model_of(config).hidden = 32;
  model_of(config).intermediate = 48;
  model_of(config).heads = 4;
  model_of(config).vocab_size = 300;
  model_of(config).moh.router = routers::kLearned;
  model_of(config).moh.num_shared = 1;
  model_of(config).moh.top_k = 1;
  language_run(config).data.sequence_length = 24;
  config.train.batch_size = 2;
  config.train.accumulate = 2;
  return config;
}

constexpr StepBenchOptions kFewSteps{.warmup = 2, .steps = 3, .random_data = true};

StepBenchRecord invented_record() {
  StepBenchRecord r;
  r.options.steps = 10;
  r.step_ms = 500;
  r.phases = PhaseTimes{150, 300, 50};
  r.unit = "tokens";
  r.items_per_s = 4096;
  r.sample_sizes = {{"sequence_length", 256}};
  r.memory.total.peak_bytes = 1000;
  r.memory.by_purpose[static_cast<std::size_t>(MemoryPurpose::kGradient)].peak_bytes = 400;
  r.peak_rss_bytes = 2000;
  r.faults = {1, 2};
  r.flops = {120e9, 100e9};
  r.ceilings = Ceilings{400, 320};
  return r;
}

}  // namespace

TEST_CASE("bench: a step's parts make up the step, and nothing is allocated once it is warm") {
  const RunConfig config = tiny_config();
  const StepBenchRecord r = run_step_bench(config, language_family(), kFewSteps);
  REQUIRE(r.phases);
  for (const double ms : *r.phases) CHECK(ms > 0);
  CHECK(r.step_ms > 0);
  CHECK(r.items_per_s == Approx(2 * 2 * 24 / (r.step_ms * 1e-3)));
  CHECK(r.faults.system_allocations == 0);
  CHECK(r.flops.dense > 0);
  CHECK(r.ceilings.value().fma_gflops.value() > 0);
  CHECK((*r.phases)[0] + (*r.phases)[1] + (*r.phases)[2] <= Approx(r.step_ms).epsilon(0.5));
  CHECK(r.gpu.empty());
  CHECK(r.parameters > 300 * 32);
  for (const MemoryPurpose purpose : {MemoryPurpose::kParameter, MemoryPurpose::kGradient}) {
    CHECK(r.memory.of(purpose).peak_bytes >= 4 * r.parameters);
  }
  CHECK(r.memory.of(MemoryPurpose::kOptimizer).peak_bytes >= 8 * r.parameters);
  CHECK(r.memory.of(MemoryPurpose::kActivation).peak_bytes > 0);
  CHECK(r.peak_rss_bytes > r.memory.total.peak_bytes);
}

TEST_CASE("bench: a step's JSON has every field, and shares are of the ceilings beside them") {
  std::ostringstream out;
  write_json_line(out, invented_record(), "a \"config\".yaml", {"train.batch_size=2"});
  CHECK(out.str().find('\n') == out.str().size() - 1);
  const auto object = nlohmann::json::parse(out.str());
  for (const char* key : {"config",
                          "overrides",
                          "data",
                          "device",
                          "dtype",
                          "isa",
                          "cuda_graph",
                          "threads",
                          "parameters",
                          "batch_size",
                          "accumulate",
                          "sequence_length",
                          "warmup",
                          "steps",
                          "step_ms",
                          "step_ms_spread",
                          "forward_ms",
                          "backward_ms",
                          "optimizer_ms",
                          "tokens_per_s",
                          "peak_bytes",
                          "peak_rss_bytes",
                          "system_allocations",
                          "page_faults",
                          "flops_per_step",
                          "flops_per_step_dense",
                          "gflops",
                          "fma_peak_gflops",
                          "matmul_peak_gflops",
                          "share_of_fma_peak",
                          "share_of_matmul_peak"}) {
    CHECK(object.contains(key));
  }
  CHECK(object["config"] == "a \"config\".yaml");
  CHECK(object["overrides"] == std::vector<std::string>{"train.batch_size=2"});
  CHECK(object["device"] == "cpu");
  CHECK(object["dtype"] == "float32");
  CHECK(object["peak_bytes"]["gradient"] == 400);
  CHECK(object["peak_bytes"]["total"] == 1000);
  CHECK(object["peak_bytes"].size() == kNumMemoryPurposes + 1);
  CHECK(object["flops_per_step_dense"] == 120e9);
  CHECK(object["gflops"] == 200.0);  // as routed: 100 GFLOP in half a second
  CHECK(object["share_of_fma_peak"] == 0.5);
  CHECK(object["share_of_matmul_peak"] == 0.625);
  CHECK_FALSE(object.contains("gpu"));
  CHECK_FALSE(object.contains("published_peak_gflops"));
}

TEST_CASE("bench: a step on a GPU names it, and has its peaks") {
  StepBenchRecord r = invented_record();
  r.config.device = {Device::Type::kCuda, 0};
  r.gpu = "NVIDIA H200, compute capability 9.0";
  r.ceilings = Ceilings{{}, 800, 1000};
  std::ostringstream json, table;
  write_json_line(json, r, "", {});
  write_table(table, r);
  const auto object = nlohmann::json::parse(json.str());
  CHECK(object["gpu"] == r.gpu);
  CHECK(object["published_peak_gflops"] == 1000);
  CHECK(object["share_of_published_peak"] == 0.2);
  CHECK(object["share_of_matmul_peak"] == 0.25);
  CHECK_FALSE(object.contains("fma_peak_gflops"));
  CHECK(table.str().find("NVIDIA H200") == 0);
  CHECK(table.str().find("the step reaches 20.0% of it") != std::string::npos);
  CHECK(table.str().find("FMA peak") == std::string::npos);
}

TEST_CASE("bench: a step's table shows parts as shares of the step") {
  std::ostringstream out;
  write_table(out, invented_record());
  CHECK(out.str().find("backward              300.00 ms    60.0%") != std::string::npos);
  CHECK(out.str().find("the step reaches 50.0% of it") != std::string::npos);
}

TEST_CASE("bench: a step without the device's peak rates has no shares of them") {
  StepBenchRecord r = invented_record();
  r.ceilings.reset();
  std::ostringstream json, table;
  write_json_line(json, r, "", {});
  write_table(table, r);
  CHECK(nlohmann::json::parse(json.str())["gflops"] == 200.0);
  for (const std::ostringstream* const out : {&json, &table}) {
    CHECK(out->str().find("peak_gflops") == std::string::npos);
    CHECK(out->str().find("the step reaches") == std::string::npos);
  }
}

TEST_CASE("bench: a step that is replayed has no parts") {
  StepBenchRecord r = invented_record();
  r.config.cuda_graph = true;
  r.phases.reset();
  std::ostringstream json, table;
  write_json_line(json, r, "", {});
  write_table(table, r);
  const auto object = nlohmann::json::parse(json.str());
  CHECK(object["cuda_graph"] == true);
  CHECK(object["tokens_per_s"] == 4096);
  for (const char* key : {"forward_ms", "backward_ms", "optimizer_ms"}) CHECK_FALSE(object.contains(key));
  CHECK(table.str().find("backward") == std::string::npos);
}

TEST_CASE("bench: steps refuse options out of range, missing data and numbers that are not finite") {
  CHECK_THROWS_AS(run_step_bench(tiny_config(), language_family(), {.steps = 0, .random_data = true}),
                  ValueError);
  CHECK_THROWS_AS(run_step_bench(tiny_config(), language_family(), {.warmup = -1, .random_data = true}),
                  ValueError);
  RunConfig config = tiny_config();
  language_run(config).data.train = unnamed_source({"/nonexistent/text.txt"});
  CHECK_THROWS_AS(run_step_bench(config, language_family(), {.random_data = false}), DataError);
  model_of(config).init_std = 1e30;
  CHECK_THROWS_AS(run_step_bench(config, language_family(), kFewSteps), NumericError);
}

TEST_CASE("bench: a profile joins an op's phases, per step, and says what is left over") {
  const std::vector<ProfileEntry> entries = {
      {.op = "rms_norm", .phase = ProfilePhase::kForward, .seconds = 0.002, .calls = 8},
      {.op = "rms_norm", .phase = ProfilePhase::kBackward, .seconds = 0.004, .calls = 8},
      {.op = "matmul", .phase = ProfilePhase::kForward, .seconds = 0.020, .calls = 2, .flops = 4e9},
      {.op = "adamw", .phase = ProfilePhase::kOptimizer, .seconds = 0.001, .calls = 2}};
  const StepProfile profile = summarize_profile(entries, 2, 0.030);
  CHECK(profile.step_ms == Approx(15));
  REQUIRE(profile.ops.size() == 3);
  CHECK(profile.ops[0].op == "matmul");
  CHECK(profile.ops[0].ms[0] == Approx(10));
  CHECK(profile.ops[0].gflops == Approx(200));  // 4 GFLOP in 20 ms
  CHECK(profile.ops[1].op == "rms_norm");
  CHECK(profile.ops[1].ms[0] == Approx(1));
  CHECK(profile.ops[1].ms[1] == Approx(2));
  CHECK(profile.ops[1].calls == 8);
  CHECK(profile.ops[1].gflops == 0);
  CHECK(profile.ops[2].ms[2] == Approx(0.5));
  CHECK(profile.other_ms() == Approx(1.5));
}
