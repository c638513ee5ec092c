#include "train/comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "core/error.h"

namespace moh {

namespace {

/// The number in a variable, from `least` to `most`.
int number_in(const std::string& text, const char* name, const char* what, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && number >= least && number <= most) return number;
  throw ConfigError(error_message("environment", name, what, "'" + text + "'"));
}

/// The number in a variable, at least 1; 0 without the variable.
int count_in(const Environment& environment, const char* name) {
  const std::string text = environment(name);
  return text.empty() ? 0
                      : number_in(text, name, "a number of processes", 1, std::numeric_limits<int>::max());
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

TcpMeeting meeting_of_torchrun(const Environment& environment) {
  TcpMeeting meeting;
  meeting.host = environment("MASTER_ADDR");
  meeting.size = number_in(environment("WORLD_SIZE"), "WORLD_SIZE", "a number of processes", 1, 1 << 20);
  meeting.rank = number_in(environment("RANK"), "RANK", "a number below WORLD_SIZE", 0, meeting.size - 1);
  meeting.port = number_in(environment("MASTER_PORT"), "MASTER_PORT", "the number of a port", 1, 65534);
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") ++meeting.port;
  if (meeting.host.empty())
    throw ConfigError(error_message("environment", "MASTER_ADDR", "the machine of rank 0", "nothing"));
  return meeting;
}

std::optional<int> local_rank_of_launcher(const Environment& environment) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const std::string text = environment(name);
    if (!text.empty()) return number_in(text, name, "the number of a process on its machine", 0, 1 << 20);
  }
  return std::nullopt;
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
