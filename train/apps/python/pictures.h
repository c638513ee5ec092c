#pragma once

#include <nanobind/nanobind.h>

#include "train/apps/python/open_model.h"

namespace moh::python {

/// Adds to `model` what image classifiers do: logits, features, the routing of tokens.
void add_pictures(nanobind::class_<OpenModel>& model);

}  // namespace moh::python
