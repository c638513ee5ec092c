#pragma once

#include "train/base/io/input_file.h"

namespace moh {

/// Whether a file is one of safetensors and not one of another format that begins with such bytes: the length
/// of its header fits into it, and the header begins with `{` and a name, or is empty. Eight small bytes and
/// a ninth that happens to be `{` or white space begin other files, too: ids of tokens, pixels.
bool is_safetensors(const InputFile& file);

}  // namespace moh
