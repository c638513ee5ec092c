#include "ops/conv/cudnn/cudnn_library.h"

#include <string>
#include <type_traits>

#include "core/cuda/library.h"

namespace moh {

const CudnnLibrary& CudnnLibrary::get() {
  static const CudnnLibrary* const functions = [] {
    const cuda::Library library("libcudnn.so." + std::to_string(CUDNN_MAJOR));
    auto* loaded = new CudnnLibrary;
#define MOH_LOAD(name) loaded->name = library.function<std::remove_pointer_t<decltype(&::name)>>(#name);
    MOH_CUDNN_FUNCTIONS(MOH_LOAD)
#undef MOH_LOAD
    return loaded;
  }();
  return *functions;
}

}  // namespace moh
