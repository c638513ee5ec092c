#include "train/apps/python/interruption.h"

namespace moh::python {

bool Interruption::requested() {
  call([] {
    if (PyErr_CheckSignals() != 0) nanobind::raise_python_error();
  });
  return error_ != nullptr;
}

}  // namespace moh::python
