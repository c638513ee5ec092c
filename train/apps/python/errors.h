#pragma once

#include <nanobind/nanobind.h>

namespace moh::python {

/// Lets moh's exceptions become those of the Python module moh.errors, with the texts that the program
/// prints: moh.errors.of_exit_code(code) is their class.
void translate_errors();

}  // namespace moh::python
