#include "train/comm/open_communicator.h"

#include <string>

#include "core/error.h"
#include "train/comm/launcher.h"
#include "train/comm/mpi_transport.h"
#include "train/comm/process_group.h"
#include "train/comm/tcp_transport.h"

namespace moh {

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
