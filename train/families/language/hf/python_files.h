#pragma once

#include <string_view>

namespace moh {

/// The files of train/families/language/hf/python/, which are part of the program.
std::string_view configuration_moh_llama_py();
std::string_view modeling_moh_llama_py();

}  // namespace moh
