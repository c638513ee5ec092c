#pragma once

#include <string>

namespace moh::cuda {

/// A shared library of CUDA's, loaded when it is first needed: linked, it would make every start of the
/// program wait for half a gigabyte, on machines without a GPU, too. It is looked for where the system looks
/// (LD_LIBRARY_PATH included), then in the toolkit that this build was made with.
class Library {
 public:
  /// Throws DeviceError naming the file and the system's reason.
  explicit Library(const std::string& file);

  /// As dlopen() gives it.
  void* handle() const { return handle_; }

  /// The function `name`. Throws DeviceError when the library has none.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string file_;
  void* handle_;  // never closed: what it started may outlive main()
};

}  // namespace moh::cuda
