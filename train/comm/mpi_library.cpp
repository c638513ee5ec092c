#include "train/comm/mpi_library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace moh {

namespace {

constexpr const char* kFile = "libmpi.so.40";  // of Open MPI 2 to 5

void* load() {
  // Open MPI loads parts of its own, which look for its symbols among those of the whole program.
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_GLOBAL);
  if (handle != nullptr) return handle;
  const char* const reason = ::dlerror();
  throw ConfigError(error_message("comm", "MPI", std::string("Open MPI's library ") + kFile,
                                  reason == nullptr ? "none" : reason,
                                  "install libopenmpi3, or add its folder to LD_LIBRARY_PATH"));
}

void* symbol(void* handle, const char* name) {
  void* const found = ::dlsym(handle, name);
  if (found == nullptr)
    throw ConfigError(error_message("comm", kFile, std::string("the symbol ") + name, "none"));
  return found;
}

}  // namespace

MpiLibrary::MpiLibrary() {
  void* const handle = load();
  const auto bind = [handle]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(symbol(handle, name));
  };
  bind(init_thread, "MPI_Init_thread");
  bind(finalize, "MPI_Finalize");
  bind(comm_rank, "MPI_Comm_rank");
  bind(comm_size, "MPI_Comm_size");
  bind(comm_set_errhandler, "MPI_Comm_set_errhandler");
  bind(isend, "MPI_Isend");
  bind(irecv, "MPI_Irecv");
  bind(testall, "MPI_Testall");
  bind(request_get_status, "MPI_Request_get_status");
  bind(abort, "MPI_Abort");
  bind(error_string, "MPI_Error_string");
  bind(get_library_version, "MPI_Get_library_version");
  bind(world, "ompi_mpi_comm_world");
  bind(byte, "ompi_mpi_byte");
  bind(errors_return, "ompi_mpi_errors_return");
}

std::string MpiLibrary::describe(int error) const {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (error_string(error, text, &length) != MPI_SUCCESS) return "error " + std::to_string(error);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace moh
