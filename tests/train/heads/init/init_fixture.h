#pragma once

#include <memory>

#include "models/llm/llama.h"
#include "train/families/language/language_run.h"
#include "train/families/language/language_task.h"

namespace moh::test {

/// A configuration of a tiny model (2 layers, 6 heads of 8, width 16), dense unless a router is set.
RunConfig tiny_run();
/// A text as its training data.
LanguageCalibration tiny_calibration(const RunConfig& run);
/// The model of a configuration, with random weights large enough to matter.
std::unique_ptr<Llama> tiny_model(const RunConfig& run);
Tensor parameter(const Llama& model, std::string_view name);

}  // namespace moh::test
