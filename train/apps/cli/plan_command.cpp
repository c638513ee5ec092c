#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/plan/plan_report.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/trainer/task/model_config.h"

namespace moh::cli {

namespace {

struct PlanArgs : RunArgs {
  PlanOptions options;  ///< gpus, memory_bytes and peak come from the fields below
  std::optional<std::int64_t> gpus, devices;
  std::string gpu_memory, memory;  ///< "141GB"; empty: not known
  std::string peak;                ///< TFLOP/s or a GPU's name; empty: not known
  bool json = false;
};

/// The option that is about a GPU, whatever the configuration says; empty if there is none.
std::string gpu_option(const PlanArgs& args) {
  if (args.gpus) return "--gpus";
  if (!args.gpu_memory.empty()) return "--gpu-memory";
  return !args.peak.empty() && !is_number(args.peak) ? "--peak-tflops " + args.peak : "";
}

/// The run, with the sizes that the file gives if the checkpoint of init.from is not there, as before the run
/// that makes it.
RunConfig finish_planned(RunFile& file, const Families& families) {
  const std::string& source = file.run().init.from;
  if (!file.leaves_model_open() || !file.gives_sizes() || std::filesystem::exists(source))
    return finish_run(file, families, ConfigUse::kModel);
  log_warning(
      "init.from: " + printable_path(source) +
      " is not there; planned is the model that the configuration describes, with defaults for what it "
      "leaves out");
  return file.finish(ConfigUse::kModel);
}

/// The configuration, with device: cuda if it names no device and an option is about GPUs, so that the memory
/// of one kind of device never stands beside the rates of another.
RunConfig read_planned(const PlanArgs& args, const Families& families) {
  const std::string option = gpu_option(args);
  RunArgs run = args;
  if (!option.empty() && !RunFile(args.config, args.overrides, families.configs()).gives("device"))
    run.overrides.emplace_back("device=cuda");
  RunFile file = open_run(run, families);
  const std::size_t logged = file.notes().size();
  RunConfig config = finish_planned(file, families);
  if (!args.json) log_notes(file, logged);
  if (!option.empty() && config.device == kCpu) {
    throw ConfigError(error_message("moh plan", option, "device: cuda, or no device, in the configuration",
                                    "device: cpu",
                                    "--devices, --memory and --peak-tflops NUMBER plan for CPUs as well"));
  }
  return config;
}

int plan(const PlanArgs& args, const Families& families) {
  const RunConfig config = read_planned(args, families);
  PlanOptions options = args.options;
  options.gpus = args.gpus.value_or(args.devices.value_or(1));
  if (!args.gpu_memory.empty()) options.memory_bytes = parse_memory(args.gpu_memory, "--gpu-memory");
  if (!args.memory.empty()) options.memory_bytes = parse_memory(args.memory, "--memory");
  if (!args.peak.empty())
    options.peak = parse_peak(args.peak, dtype_of(config.precision), "--peak-tflops", config.tf32);
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
  CLI::Option* gpus = command.add_option(
      "--gpus", args.gpus,
      "Number of GPUs, which share the samples of each step (data parallelism); implies device=cuda");
  command.add_option("--devices", args.devices, "Number of devices of the configuration's kind, GPU or CPU")
      ->excludes(gpus);
  command.add_option(
      "--zero", options.zero,
      "Stage of ZeRO in place of comm.zero: 1 shards the optimiser's state among the devices, 2 "
      "the gradients, too, 3 and the weights");
  CLI::Option* gpu_memory = command.add_option(
      "--gpu-memory", args.gpu_memory,
      "Memory of each GPU: 141GB (decimal), 79.6GiB (binary), or bytes; implies device=cuda");
  CLI::Option* memory = command
                            .add_option("--memory", args.memory,
                                        "Memory of each device of the configuration's kind, GPU or CPU")
                            ->excludes(gpu_memory);
  command
      .add_flag("--no-memory", options.no_memory,
                "Leave out the memory: operations and time alone, in a tenth of the time")
      ->excludes(gpu_memory)
      ->excludes(memory);
  command.add_option("--mfu", options.mfu,
                     "Model FLOP utilisation: model FLOP/s as a share of the peak rate");
  command.add_option("--peak-tflops", args.peak,
                     "Peak rate of each device in TFLOP/s, or H100, H200, A100, which imply device=cuda: the "
                     "published rate of the run's precision (bfloat16, TF32 or float32)");
  command.add_flag("--json", args.json, "Print one JSON object instead of a table");
  command.footer(
      R"(Nothing is computed or written; neither the GPU of the configuration nor its data are needed.
docs/plan.md explains the numbers.

Examples:
  moh plan configs/llm/tiny_shakespeare_moh_50.yaml
  moh plan configs/llm/moh_llm_b_50.yaml train.batch_size=4 --gpu-memory 80GB --peak-tflops H100
  moh plan configs/llm/llm_s.yaml --gpus 8 --gpu-memory 141GB --mfu 0.35 --peak-tflops 989 --json)");
}

}  // namespace moh::cli
