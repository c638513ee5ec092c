#pragma once

#include <nanobind/nanobind.h>

#include "train/apps/python/open_model.h"

namespace moh::python {

/// Adds to `model` what language models do: logits, generated text, tokens, the routing of tokens.
void add_language(nanobind::class_<OpenModel>& model);

}  // namespace moh::python
