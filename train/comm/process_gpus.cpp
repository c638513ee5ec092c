#include "train/comm/process_gpus.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/cuda/gpus.h"
#include "core/error.h"
#include "train/comm/launcher.h"
#include "train/comm/nccl_collectives.h"
#include "train/comm/peers.h"
#include "train/comm/staged_collectives.h"

namespace moh {

namespace {

constexpr const char* kShare =
    "start fewer, or set comm.backend: host, with which processes share a GPU and send through host memory";

[[noreturn]] void refuse_gpus(const std::string& what, const std::string& expected, const std::string& found,
                              const std::string& fix) {
  throw ConfigError(error_message("device: cuda", what, expected, found, fix));
}

/// A GPU in all of the run.
std::string place_of_gpu(int index) {
  return std::string(describe_self().host) + ", PCI " + cuda::gpu_address(index);
}

}  // namespace

int gpu_of(const LocalPlace& place, CommBackend backend) {
  if (!place.rank && place.processes > 1) {
    refuse_gpus(std::to_string(place.processes) + " processes on this machine",
                "LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID, by which each takes a GPU",
                "none of them", "start them with mpirun, srun or torchrun");
  }
  const int rank = place.rank.value_or(0);
  if (place.gpus == 0) return 0;  // opening it says what is missing
  if (backend == CommBackend::kHost) return rank % place.gpus;
  if (rank < place.gpus) return rank;
  if (place.gpus == 1) return 0;
  refuse_gpus(std::to_string(place.processes) + " processes on this machine", "a GPU for each",
              std::to_string(place.gpus) + " GPUs", kShare);
}

Device gpu_of_process(Communicator& processes, CommBackend backend) {
  const int index = gpu_of({local_rank_of_launcher(), processes.local_size(), cuda::count_gpus()}, backend);
  const Device device{Device::Type::kCuda, index};
  if (backend == CommBackend::kHost || processes.alone()) return device;
  const std::vector<std::string> places =
      processes.texts_of_all(cuda::count_gpus() == 0 ? "" : place_of_gpu(index));
  for (auto place = places.begin(); place != places.end(); ++place) {
    const auto first = std::find(places.begin(), place, *place);
    if (first == place || place->empty()) continue;
    refuse_gpus(std::to_string(processes.size()) + " processes", "a GPU for each",
                "that ranks " + std::to_string(first - places.begin()) + " and " +
                    std::to_string(place - places.begin()) + " have the same (" + *place + ")",
                kShare);
  }
  return device;
}

std::unique_ptr<DeviceCollectives> open_device_collectives(Communicator& processes, CommBackend backend,
                                                           Device device, double timeout) {
  if (backend == CommBackend::kHost) return std::make_unique<StagedCollectives>(processes);
  return std::make_unique<NcclCollectives>(processes, device, timeout);
}

}  // namespace moh
