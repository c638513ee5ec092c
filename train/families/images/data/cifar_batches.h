#pragma once

#include <filesystem>
#include <vector>

#include "train/families/images/data/picture_source.h"

namespace moh {

/// Pictures of CIFAR-10's binary version: files of records of 3073 bytes, a label and 32 x 32 pixels, red,
/// green and blue one after the other. Class names come from batches.meta.txt beside the first file, if it is
/// there. Throws DataError for files of another size, and for labels above 9.
PictureSourcePtr open_cifar_batches(const std::vector<std::filesystem::path>& files,
                                    const std::vector<std::string>& class_names = {});

}  // namespace moh
