#pragma once

#include <string>

namespace moh::cuda {

/// A CUDA library (cuBLAS, cuDNN), loaded with dlopen() on first use: if it were linked, every start of the
/// program would load half a gigabyte, even on machines without a GPU. Search order: that of the system
/// (LD_LIBRARY_PATH included), then the toolkit that this build was made with.
class Library {
 public:
  /// Throws DeviceError naming the file and the system's reason.
  explicit Library(const std::string& file);

  /// The handle that dlopen() returned.
  void* handle() const { return handle_; }

  /// The function `name`. Throws DeviceError when the library has none.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string file_;
  void* handle_;  // never closed: the library's threads and contexts may outlive main()
};

}  // namespace moh::cuda
