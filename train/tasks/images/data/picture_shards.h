#pragma once

#include <filesystem>
#include <vector>

#include "train/tasks/images/data/picture_source.h"

namespace moh {

/// Pictures in tar archives, of one of two forms:
/// - WebDataset: NAME.jpg (or .jpeg, .png) and NAME.cls, which holds the label as a number; other members are
///   passed over. The classes are named by their numbers.
/// - CLASS/NAME.jpg: the last folder is the class.
///
/// Where each picture lies is found once, and written beside each archive as `.ARCHIVE.moh-index` (a
/// safetensors file; docs/pictures.md), so that any picture can be read at once and a run resumes in the
/// middle of a shard. An index of an archive that has changed is made again; where none can be written, the
/// archive is read through at every start, with a warning.
///
/// Throws DataError for damaged archives, for archives of both forms, and without pictures.
PictureSourcePtr open_picture_shards(const std::vector<std::filesystem::path>& archives,
                                     const std::vector<std::string>& class_names = {});

}  // namespace moh
