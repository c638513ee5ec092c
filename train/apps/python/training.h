#pragma once

#include <nanobind/nanobind.h>

namespace moh::python {

/// Adds `train` to the module.
void add_training(nanobind::module_& module);

}  // namespace moh::python
