#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "train/tasks/language/data/token_file.h"

namespace moh {

/// How a token file of the format begins that moh wrote before these were safetensors files. It is read to be
/// described and converted, not to be trained on.
inline constexpr std::string_view kOldTokenFileMagic = "MOHTOKEN";

/// Opens a file of that format and checks its header and size; with `verify` also the checksum of its ids.
/// Throws DataError naming the file and what is wrong.
std::shared_ptr<const TokenFile> open_old_token_file(const std::string& path, bool verify);

/// The command that converts a file of that format.
std::string conversion_of_old_token_file(const std::string& path);

}  // namespace moh
