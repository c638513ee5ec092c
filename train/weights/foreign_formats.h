#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "train/base/formats/weight_file.h"

namespace moh {

/// A format of weights that moh does not read, and how to convert it to one that it reads.
struct ForeignFormat {
  std::string_view name;  ///< "a GGUF file"
  std::string_view fix;
};

// Each returns nullptr for an unknown format.

/// The format of a file whose first bytes are `begin`.
const ForeignFormat* foreign_file(const std::filesystem::path& path, std::string_view begin);
/// The format of a folder, by the names of its files.
const ForeignFormat* foreign_folder(const std::filesystem::path& folder);
/// The format of a file that can be read, by tensor names that are specific to a program.
const ForeignFormat* foreign_names(std::span<const WeightInfo> tensors);

/// Throws CheckpointError for a file with such names that has no configuration.
void refuse_foreign_names(const WeightFile& weights);

}  // namespace moh
