#pragma once

#include <string_view>

namespace moh {

/// The files of train/families/images/export/python/, which are part of the program. moh_attention.py is that
/// of diffusion transformers, too.
std::string_view moh_attention_py();
std::string_view modeling_moh_vit_py();
std::string_view transformers_moh_vit_py();

}  // namespace moh
