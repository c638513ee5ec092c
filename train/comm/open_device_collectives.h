#pragma once

#include <memory>

#include "train/comm/comm_backend.h"
#include "train/comm/communicator.h"
#include "train/comm/device_collectives.h"

namespace moh {

/// Collectives between the GPUs of several processes, each of which has opened its own (gpu_of_process());
/// from now on processes.on_device(). `timeout` in seconds limits the meeting and each collective; 0: nothing
/// does. Throws ConfigError without NCCL for CommBackend::kAuto and kNccl, CommError if they do not meet.
std::unique_ptr<DeviceCollectives> open_device_collectives(Communicator& processes, CommBackend backend,
                                                           Device device, double timeout);

}  // namespace moh
