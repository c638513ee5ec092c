#pragma once

#include <string_view>

namespace moh {

/// The file of train/families/diffusion/export/python/, which is part of the program.
std::string_view modeling_moh_dit_py();

}  // namespace moh
