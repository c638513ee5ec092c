#pragma once

#include <mpi.h>

#include <string>

#ifndef OPEN_MPI
#error "mpi.h is not that of Open MPI, whose library is loaded by name"
#endif

namespace moh {

/// The functions of Open MPI that are used, and the objects behind its macros. The library is loaded on
/// first use: a program that were linked with it would not start without it, and load 30 libraries for
/// `moh --help`.
struct MpiLibrary {
  MpiLibrary();

  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Testall) testall;
  decltype(&MPI_Request_get_status) request_get_status;
  decltype(&MPI_Abort) abort;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Get_library_version) get_library_version;

  MPI_Comm world;                ///< MPI_COMM_WORLD
  MPI_Datatype byte;             ///< MPI_BYTE
  MPI_Errhandler errors_return;  ///< MPI_ERRORS_RETURN

  /// The text of an error code.
  std::string describe(int error) const;
};

}  // namespace moh
