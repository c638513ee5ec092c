#pragma once

#include <cstdint>
#include <string_view>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The first line of a text, counted from 0, that a tokenizer cannot express; 0 if it can express each by
/// itself. For the place in a message: lines are encoded one by one.
std::int64_t faulty_line(std::string_view text, const Tokenizer& tokenizer);

}  // namespace moh
