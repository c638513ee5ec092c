#include <cstdio>

#include "core/error.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/tasks/model_presets.h"

namespace moh::cli {

int config(const ConfigArgs& args) {
  if (!args.reference && args.config.empty()) {
    throw ConfigError("moh config: expected a configuration file, or --reference");
  }
  const std::string text =
      args.reference ? print_reference(llama_model_presets())
                     : print_resolved(load_run_config(args.config, args.overrides, llama_model_presets()));
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace moh::cli
