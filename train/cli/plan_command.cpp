#include <CLI/CLI.hpp>
#include <iostream>

#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/tools/plan/plan_report.h"

namespace moh::cli {

namespace {

struct PlanArgs : RunArgs {
  PlanOptions options;  ///< memory_bytes and peak come from the fields below
  std::string memory;   ///< "141GB"; empty: not known
  std::string peak;     ///< TFLOP/s or a GPU's name; empty: not known
  bool json = false;
};

int plan(const PlanArgs& args, const Families& families) {
  const RunConfig config = read_run(args, families, ConfigUse::kModel);
  PlanOptions options = args.options;
  if (!args.memory.empty()) options.memory_bytes = parse_memory(args.memory, "--gpu-memory");
  if (!args.peak.empty()) options.peak = parse_peak(args.peak, dtype_of(config.precision), "--peak-tflops");
  set_num_threads(config.threads);
  const TrainingPlan plan = plan_training(config, options, synthetic_tasks(families.of(config)));
  if (args.json)
    write_json_line(std::cout, plan, args.config, args.overrides);
  else
    write_table(std::cout, plan);
  return kDone;
}

}  // namespace

void add_plan(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "plan", "Estimate memory, operations and time of a training run, without running it", plan);
  PlanOptions& options = args.options;
  add_run_arguments(command, args, /*required=*/true);
  command.add_option("--gpus", options.gpus,
                     "Number of devices, which share the samples of each step (data parallelism)");
  command.add_option(
      "--zero", options.zero,
      "Stage of ZeRO in place of comm.zero: 1 divides the optimiser's state among the devices");
  command.add_option("--gpu-memory", args.memory,
                     "Memory of each device: 141GB (decimal), 79.6GiB (binary), or bytes");
  command.add_option("--mfu", options.mfu,
                     "Model FLOP utilisation: model FLOP/s as a share of the peak rate");
  command.add_option("--peak-tflops", args.peak,
                     "Peak rate of each device in TFLOP/s, or H100, H200, A100 (bfloat16, published)");
  command.add_flag("--json", args.json, "Print one JSON object instead of a table");
  command.footer(
      R"(Nothing is computed or written; a GPU that the configuration names is not needed, nor are its data.
docs/plan.md explains the numbers.

Examples:
  moh plan configs/llm/tiny_shakespeare_moh_50.yaml
  moh plan configs/llm/moh_llm_b_50.yaml device=cuda train.batch_size=4 --gpu-memory 80GB --peak-tflops H100
  moh plan configs/llm/llm_s.yaml device=cuda --gpus 8 --gpu-memory 141GB --mfu 0.35 --peak-tflops 989 --json)");
}

}  // namespace moh::cli
