#include "core/cuda/nccl_library.h"

#include <string>
#include <type_traits>

#include "core/cuda/library.h"
#include "core/cuda/nccl_group.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

constexpr const char* kFile = "libnccl.so.2";

/// ConfigError, as what is missing is a library for comm.backend, and not a GPU.
Library open_library() {
  try {
    return Library(kFile);
  } catch (const DeviceError& error) {
    throw ConfigError(std::string(error.what()) +
                      " (libnccl2, or the Python package nvidia-nccl-cu13), or set comm.backend: host");
  }
}

void require_version(const NcclLibrary& nccl) {
  constexpr int kOldest = NCCL_VERSION(2, 14, 3);
  int version = 0;
  nccl.ncclGetVersion(&version);
  if (version >= kOldest) return;
  throw ConfigError(error_message("comm", kFile,
                                  nccl_version_text(kOldest) + " or later, whose communicators do not block",
                                  nccl_version_text(version)));
}

}  // namespace

const NcclLibrary& NcclLibrary::get() {
  static const NcclLibrary* const functions = [] {
    pin_nccl_algorithms();
    const Library library = open_library();
    auto* loaded = new NcclLibrary;
#define MOH_LOAD(name) loaded->name = library.function<std::remove_pointer_t<decltype(&::name)>>(#name);
    MOH_NCCL_FUNCTIONS(MOH_LOAD)
#undef MOH_LOAD
    require_version(*loaded);
    return loaded;
  }();
  return *functions;
}

}  // namespace moh::cuda
