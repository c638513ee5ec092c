#pragma once

#include <memory>
#include <optional>

#include "train/comm/comm_backend.h"
#include "train/comm/communicator.h"
#include "train/comm/device_collectives.h"

namespace moh {

/// The facts that decide which GPU of its machine a process computes on.
struct LocalPlace {
  std::optional<int> rank;  ///< among the processes of the machine, as the launcher says
  int processes = 1;        ///< of the machine
  int gpus = 0;             ///< that this process sees
};

/// The number of the GPU of a process: its rank on the machine; 0 where it sees one GPU alone, as Slurm's
/// --gpus-per-task has it; with CommBackend::kHost, processes share GPUs in turns. Throws ConfigError where
/// nothing says which of several processes it is, or where there are too few GPUs.
int gpu_of(const LocalPlace& place, CommBackend backend);

/// The GPU of this process of several, which are all to ask. Throws ConfigError as gpu_of(), and naming the
/// ranks where two processes have the same GPU, unless `backend` is kHost.
Device gpu_of_process(Communicator& processes, CommBackend backend);

/// Collectives between the GPUs of several processes, each of which has opened its own (gpu_of_process());
/// from now on processes.on_device(). `timeout` in seconds limits the meeting and each collective; 0: nothing
/// does. Throws ConfigError without NCCL for CommBackend::kAuto and kNccl, CommError if they do not meet.
std::unique_ptr<DeviceCollectives> open_device_collectives(Communicator& processes, CommBackend backend,
                                                           Device device, double timeout);

}  // namespace moh
