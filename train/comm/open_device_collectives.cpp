#include "train/comm/open_device_collectives.h"

#include "train/comm/nccl_collectives.h"
#include "train/comm/staged_collectives.h"

namespace moh {

std::unique_ptr<DeviceCollectives> open_device_collectives(Communicator& processes, CommBackend backend,
                                                           Device device, double timeout) {
  if (backend == CommBackend::kHost) return std::make_unique<StagedCollectives>(processes);
  return std::make_unique<NcclCollectives>(processes, device, timeout);
}

}  // namespace moh
