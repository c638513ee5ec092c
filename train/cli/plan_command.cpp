#include <iostream>

#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/plan/training_plan.h"
#include "train/tasks/llama_from_config.h"
#include "train/tasks/model_presets.h"

namespace moh::cli {

int plan(const PlanArgs& args) {
  std::vector<std::string> overrides = args.overrides;
  overrides.emplace_back("data.train=unread");  // a plan needs no text
  const RunConfig config = load_run_config(args.config, overrides, llama_model_presets());
  PlanOptions options = args.options;
  if (!args.memory.empty()) options.memory_bytes = parse_memory(args.memory, "--gpu-memory");
  if (!args.peak.empty())
    options.peak = parse_peak(args.peak, dtype_of_precision(config.precision), "--peak-tflops");
  set_num_threads(static_cast<int>(config.threads));
  const TrainingPlan plan = plan_training(config, options);
  if (args.json)
    write_json_line(std::cout, plan, args.config, args.overrides);
  else
    write_table(std::cout, plan);
  return kDone;
}

}  // namespace moh::cli
