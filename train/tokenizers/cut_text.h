#pragma once

#include <cstddef>
#include <string_view>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// A place near the end of `text` where it can be cut, so that a long text is encoded in pieces: the ids of
/// the text are those of the front, followed by encode_rest() of what comes after the cut. Places before a
/// space or the end of a line after a letter or digit are proposed, then those between any two characters
/// that are not part of a row of blanks or of one character; a place is taken if the 2 KiB around it have the
/// same ids in one piece and in two. 0: no such place in the last 64 KiB.
std::size_t find_cut(const Tokenizer& tokenizer, std::string_view text);

}  // namespace moh
