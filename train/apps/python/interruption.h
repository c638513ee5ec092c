#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace moh::python {

/// The reason why a long computation does not go on: Ctrl-C, or an exception of a function of Python that it
/// calls. The computation holds no lock of the interpreter, and stops by itself; then rethrow() throws what
/// it was.
class Interruption {
 public:
  /// Whether there was an exception; lets Python handle signals, which it does on its first thread alone.
  bool requested();
  /// Calls `work` with the interpreter's lock, and keeps its exception.
  template <class Work>
  void call(const Work& work) {
    const nanobind::gil_scoped_acquire lock;
    try {
      if (!error_) work();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  /// Throws the exception, if there was one.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

}  // namespace moh::python
