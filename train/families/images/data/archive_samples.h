#pragma once

#include "train/base/io/input_file.h"
#include "train/families/images/data/shard_index.h"

namespace moh {

/// Finds the labelled pictures of a tar archive by reading its headers.
///
/// With members `KEY.cls` the archive is WebDataset's: a key is a member's path up to the first dot of its
/// name, the rest is the extension, in any case of letters. Members of one key are a sample, whose picture is
/// the one with the extension jpg, jpeg or png; other fields, `KEY.seg.png` too, are passed over. A sample
/// has one picture and one label, or is refused; a complete one may be followed, after others, by another of
/// its key. Without such members, the last folder of each .jpg, .jpeg or .png names its class.
///
/// Throws DataError naming the archive and a member of what is not as above, for labels that are no numbers
/// of classes, and for an archive without pictures.
ShardIndex archive_samples(const InputFile& archive);

}  // namespace moh
