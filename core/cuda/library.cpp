#include "core/cuda/library.h"

#include <dlfcn.h>

#include "core/error.h"

namespace moh::cuda {

Library::Library(const std::string& file) : file_(file), handle_(dlopen(file.c_str(), RTLD_NOW)) {
  const std::string reason = handle_ == nullptr ? dlerror() : "";
  if (handle_ == nullptr) handle_ = dlopen((std::string(MOH_CUDA_LIBRARY_DIR "/") + file).c_str(), RTLD_NOW);
  if (handle_ == nullptr) {
    throw DeviceError(error_message("device: cuda", file, "a library that can be loaded", reason,
                                    "put the folder of the CUDA libraries into LD_LIBRARY_PATH"));
  }
}

void* Library::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr)
    throw DeviceError(error_message("device: cuda", file_, name, "no function of this name"));
  return found;
}

}  // namespace moh::cuda
