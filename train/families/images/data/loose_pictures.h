#pragma once

#include <filesystem>

#include "train/families/images/data/picture_source.h"

namespace moh {

/// Pictures whose classes do not matter, all of class 0:
/// - the array arr_0 [N, H, W, 3] of bytes of an .npz file, as the evaluator of guided-diffusion reads and
///   `moh sample --npz` writes it;
/// - a folder without folders: its .png, .jpg and .jpeg files in the order of their names, but for the
///   `grid.png` of `moh sample`;
/// - anything that open_pictures() opens.
/// Throws DataError.
PictureSourcePtr open_loose_pictures(const std::filesystem::path& path);

}  // namespace moh
