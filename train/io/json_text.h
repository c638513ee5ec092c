#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/io/input_file.h"

namespace moh {

/// The text of an untrusted file that holds one JSON object, of at most `max_bytes` and `max_depth` levels.
/// All that a parser would let through, or build without bound, is refused here: NUL, which it takes for the
/// end, keys that stand twice, of which it keeps the last, levels that overflow the stack of recursive code.
/// The text is UTF-8 and parses. Throws the kind's error, naming the file.
std::string read_json_object(const std::filesystem::path& path, InputKind kind, std::uint64_t max_bytes,
                             int max_depth);

}  // namespace moh
