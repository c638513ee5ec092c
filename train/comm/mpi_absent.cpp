#include "core/error.h"
#include "train/comm/mpi_transport.h"

namespace moh {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError(error_message("comm", "MPI", "a build with Open MPI, to train in several processes",
                                  "one without", "install libopenmpi-dev and build again"));
}

}  // namespace

std::unique_ptr<Transport> connect_mpi() {
  refuse();
}

std::string mpi_version() {
  refuse();
}

}  // namespace moh
