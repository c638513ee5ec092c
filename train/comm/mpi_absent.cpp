#include "core/error.h"
#include "train/comm/mpi_transport.h"

namespace moh {

std::unique_ptr<Transport> connect_mpi() {
  throw ConfigError(error_message("comm", "MPI", "a build with Open MPI, to train in several processes",
                                  "one without", "install libopenmpi-dev and build again"));
}

}  // namespace moh
