#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "train/tasks/language/data/token_file.h"

namespace moh {

/// The first bytes of a token file in moh's earlier format, before token files were safetensors files. Such
/// files can be described and converted, but not trained on.
inline constexpr std::string_view kOldTokenFileMagic = "MOHTOKEN";

/// Opens a file of that format and checks its header and size; with `verify` also the checksum of its ids.
/// Throws DataError naming the file and what is wrong.
std::shared_ptr<const TokenFile> open_old_token_file(const std::string& path, bool verify);

/// The command line that converts a file of that format, for messages.
std::string conversion_of_old_token_file(const std::string& path);

}  // namespace moh
