#pragma once

#include <filesystem>

#include "train/families/images/data/picture_source.h"

namespace moh {

/// The pictures of a folder with a folder per class (torchvision's ImageFolder): classes in the order of
/// their names, their files at any depth in the order of theirs. Files are those that end in .jpg, .jpeg or
/// .png, in upper or lower case; others are counted in one warning. Names that begin with a dot, and
/// `__MACOSX`, are passed over. Throws DataError for a folder without classes, and for a class without
/// pictures.
PictureSourcePtr open_picture_folder(const std::filesystem::path& folder,
                                     const std::vector<std::string>& class_names = {});

}  // namespace moh
