#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/families/images/data/picture_source.h"

namespace moh {

/// Pictures in tar archives, of one of two forms (archive_samples()):
/// - WebDataset: KEY.jpg (or .jpeg, .png) and KEY.cls, which holds the label as a number. The classes are
///   named by their numbers.
/// - CLASS/NAME.jpg: the last folder is the class.
///
/// Where each picture lies is found once, and written beside each archive as `.ARCHIVE.moh-index` (a
/// safetensors file; docs/pictures.md), so that any picture can be read at once and a run resumes in the
/// middle of a shard. An index of an archive that has changed is made again; where none can be written, the
/// archive is read through at every start, with a warning. An archive that is replaced or written after that
/// is refused by the next load(), with a ChangedDataError.
///
/// `classes` is the model's number of classes, or 0: labels that are numbers have to be smaller than it, or
/// than 2^20. Throws DataError for damaged archives, for archives of both forms, and without pictures.
PictureSourcePtr open_picture_shards(const std::vector<std::filesystem::path>& archives,
                                     const std::vector<std::string>& class_names = {},
                                     std::int64_t classes = 0);

}  // namespace moh
