#pragma once

#include <memory>

#include "train/comm/communicator.h"

namespace moh {

/// The communicator of the processes that a launcher (mpirun, srun) has started; null where this process was
/// started alone. Throws ConfigError if they cannot be connected (no MPI in this build, or none on this
/// machine; a launcher whose processes do not find each other), CommError if they do not meet.
std::unique_ptr<Communicator> open_communicator();

}  // namespace moh
