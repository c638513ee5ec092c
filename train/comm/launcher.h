#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "train/comm/communicator.h"
#include "train/comm/tcp_transport.h"

namespace moh {

/// The launcher that has started this process, according to its environment.
struct Launch {
  std::string_view launcher;  ///< "mpirun", "srun", "torchrun", "mpiexec"; empty: nothing that starts several
  int size = 1;               ///< processes that were started
  bool by_pmix = false;       ///< Open MPI's processes find each other
};

/// Value of an environment variable; empty without it.
using Environment = std::function<std::string(const char* name)>;
std::string environment_variable(const char* name);

/// Whether an environment variable is set, to nothing.
using IsEmpty = std::function<bool(const char* name)>;
bool variable_is_empty(const char* name);

/// Throws ConfigError if one of several variables of a launcher is set to nothing, as by a script whose own
/// variable was not set: each of the processes would take itself for a run of one.
void refuse_empty_variables(const Environment& environment = environment_variable,
                            const IsEmpty& is_empty = variable_is_empty);

/// Where torchrun's processes meet, from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Where torchrun's own
/// store listens at MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), rank 0 listens at the port after it. Throws
/// ConfigError for numbers that are none.
TcpMeeting meeting_of_torchrun(const Environment& environment = environment_variable);

/// The number of this process among those that the launcher has started on this machine, from LOCAL_RANK,
/// OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID; nothing without them. Throws ConfigError for a number that is
/// none.
std::optional<int> local_rank_of_launcher(const Environment& environment = environment_variable);

/// Reads the variables of Open MPI's mpirun, Slurm's srun, torchrun, and launchers of other MPIs. Throws
/// ConfigError for numbers that are none.
Launch detect_launch(const Environment& environment = environment_variable);

/// The communicator of the processes that a launcher (mpirun, srun) has started; null where this process was
/// started alone. Throws ConfigError if they cannot be connected (no MPI in this build, or none on this
/// machine; a launcher whose processes do not find each other), CommError if they do not meet.
std::unique_ptr<Communicator> open_communicator();

}  // namespace moh
