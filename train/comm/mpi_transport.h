#pragma once

#include <memory>
#include <string>

#include "train/comm/transport.h"

namespace moh {

/// Initialises Open MPI, which is loaded at this point and not before (MpiLibrary), and connects with all
/// processes of MPI_COMM_WORLD. The calling thread is the one that uses the transport. Throws ConfigError in
/// a build without MPI, and where the library is missing or is another; CommError.
std::unique_ptr<Transport> connect_mpi();

/// "Open MPI v4.1.4", of the library that is loaded; nothing is initialised. Throws ConfigError as
/// connect_mpi().
std::string mpi_version();

}  // namespace moh
