#include "train/comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/comm/mpi_transport.h"
#include "train/comm/process_group.h"
#include "train/comm/tcp_transport.h"

namespace moh {

namespace {

/// The variables of each launcher.
const std::vector<const char*> variables_of_launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"},
    {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"},
    {"PMI_SIZE", "PMI_RANK"}};

/// The number in a variable, from `least` to `most`.
int number_in(const std::string& text, const char* name, const char* what, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && number >= least && number <= most) return number;
  throw ConfigError(
      error_message("environment", name, what, "'" + text + "'",
                    text.empty() ? "set it, or unset WORLD_SIZE for a run in one process" : ""));
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

bool variable_is_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value == '\0';
}

void refuse_empty_variables(const Environment& environment, const IsEmpty& is_empty) {
  for (const std::vector<const char*>& group : variables_of_launchers) {
    std::string empty, all;
    std::size_t set = 0;
    for (const char* name : group) {
      all += (all.empty() ? "" : ", ") + std::string(name);
      if (is_empty(name)) empty += (empty.empty() ? "" : ", ") + std::string(name);
      if (is_empty(name) || !environment(name).empty()) ++set;
    }
    if (empty.empty() || set < 2) continue;
    throw ConfigError(error_message("environment", empty, "a value, as it tells the processes of a run apart",
                                    "nothing: set, and empty",
                                    "set it, or for a run in one process unset all of " + all));
  }
}

TcpMeeting meeting_of_torchrun(const Environment& environment) {
  TcpMeeting meeting;
  meeting.host = environment("MASTER_ADDR");
  meeting.size = number_in(environment("WORLD_SIZE"), "WORLD_SIZE", "a number of processes", 1, 1 << 20);
  meeting.rank = number_in(environment("RANK"), "RANK", "a number below WORLD_SIZE", 0, meeting.size - 1);
  meeting.port = number_in(environment("MASTER_PORT"), "MASTER_PORT", "the number of a port", 1, 65534);
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") ++meeting.port;
  if (meeting.host.empty())
    throw ConfigError(error_message("environment", "MASTER_ADDR", "the machine of rank 0", "nothing",
                                    "set it, or unset WORLD_SIZE for a run in one process"));
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
  // meeting_of_torchrun() reports missing variables; the number tells whether processes have to meet.
  const bool by_torchrun = !environment("TORCHELASTIC_RUN_ID").empty();
  const bool has_rank = !environment("RANK").empty(), has_address = !environment("MASTER_ADDR").empty();
  if (by_torchrun || has_rank || has_address) {
    const int size = count_in(environment, "WORLD_SIZE");
    if (size == 0 && has_rank && has_address)
      throw ConfigError(error_message("environment", "WORLD_SIZE", "the number of processes, beside RANK",
                                      "nothing", "set it, or unset RANK for a run in one process"));
    if (size > 1 || (size == 1 && (by_torchrun || (has_rank && has_address))))
      return {"torchrun", size, by_pmix};
  }
  if (const int of_pmi = count_in(environment, "PMI_SIZE"); of_pmi > 0) return {"mpiexec", of_pmi, by_pmix};
  return {};
}

namespace {

[[noreturn]] void refuse(const Launch& launch, const std::string& expected, const std::string& found,
                         const std::string& fix) {
  throw ConfigError(error_message(
      "comm", std::string(launch.launcher) + " with " + std::to_string(launch.size) + " processes", expected,
      found, fix));
}

}  // namespace

std::unique_ptr<Communicator> open_communicator() {
  refuse_empty_variables();
  const Launch launch = detect_launch();
  if (launch.size == 1) return nullptr;
  const std::string with_mpirun =
      "start them with: mpirun -np " + std::to_string(launch.size) + " moh train CONFIG.yaml";
  if (launch.launcher == "torchrun")
    return std::make_unique<ProcessGroup>([meeting = meeting_of_torchrun()] { return connect_tcp(meeting); });
  if (launch.launcher == "mpiexec")
    refuse(launch, "the launcher of Open MPI", "that of another MPI (PMI_SIZE is set)", with_mpirun);
  if (launch.launcher == "srun" && !launch.by_pmix)
    refuse(launch, "srun with PMIx, through which Open MPI's processes find each other", "srun without it",
           "srun --mpi=pmix, or mpirun in the job's script");
  auto group = std::make_unique<ProcessGroup>(connect_mpi);
  if (group->size() != launch.size) {
    refuse(launch, std::to_string(launch.size) + " processes that Open MPI connects",
           std::to_string(group->size()), with_mpirun + ", with the mpirun of the same Open MPI");
  }
  return group;
}

}  // namespace moh
