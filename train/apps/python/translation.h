#pragma once

#include <nanobind/nanobind.h>

#include "train/apps/python/open_model.h"

namespace moh::python {

/// Adds to `model` what translation models do.
void add_translation(nanobind::class_<OpenModel>& model);

}  // namespace moh::python
