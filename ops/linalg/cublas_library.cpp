#include "ops/linalg/cublas_library.h"

#include <string>
#include <type_traits>

#include "core/cuda/library.h"

namespace moh {

const CublasLibrary& CublasLibrary::get() {
  static const CublasLibrary* const functions = [] {
    const cuda::Library library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
    auto* loaded = new CublasLibrary;
#define MOH_LOAD(name) loaded->name = library.function<std::remove_pointer_t<decltype(&::name)>>(#name);
    MOH_CUBLAS_FUNCTIONS(MOH_LOAD)
#undef MOH_LOAD
    return loaded;
  }();
  return *functions;
}

}  // namespace moh
