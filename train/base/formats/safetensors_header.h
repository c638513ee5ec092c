#pragma once

#include <vector>

#include "train/base/formats/safetensors.h"

namespace moh {

/// The contents of a safetensors header. Part of SafetensorsFile.
struct SafetensorsHeader {
  std::vector<WeightInfo> tensors;  ///< in the order of the header
  WeightFile::Metadata metadata;
};

/// Reads the header of `length` bytes that begins at byte 8 of `file`. Checks everything that concerns a
/// single tensor: the JSON, its keys and types, the dtype, the shape against the byte range. Throws the
/// file's kind of error.
SafetensorsHeader parse_safetensors_header(const InputFile& file, std::uint64_t length);

}  // namespace moh
