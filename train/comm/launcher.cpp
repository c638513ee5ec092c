#include "train/comm/launcher.h"

#include <charconv>
#include <cstdlib>

#include "core/error.h"

namespace moh {

namespace {

/// The number in a variable, at least 1; 0 without the variable.
int count_in(const Environment& environment, const char* name) {
  const std::string text = environment(name);
  if (text.empty()) return 0;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count > 0) return count;
  throw ConfigError(error_message("environment", name, "a number of processes", "'" + text + "'"));
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Launch detect_launch(const Environment& environment) {
  const bool by_pmix = !environment("PMIX_RANK").empty();
  if (const int size = count_in(environment, "OMPI_COMM_WORLD_SIZE"); size > 0)
    return {"mpirun", size, by_pmix};
  // In a batch script these are of the whole job: only steps have a number.
  if (!environment("SLURM_STEP_ID").empty()) {
    const int of_step = count_in(environment, "SLURM_STEP_NUM_TASKS");
    return {"srun", of_step > 0 ? of_step : 1, by_pmix};
  }
  if (!environment("TORCHELASTIC_RUN_ID").empty() ||
      (!environment("RANK").empty() && !environment("MASTER_ADDR").empty())) {
    const int size = count_in(environment, "WORLD_SIZE");
    return {"torchrun", size > 0 ? size : 1, by_pmix};
  }
  if (const int size = count_in(environment, "PMI_SIZE"); size > 0) return {"mpiexec", size, by_pmix};
  return {};
}

}  // namespace moh
