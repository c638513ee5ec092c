#pragma once

#include <string>

namespace moh {

/// The text of decoded tokens as transformers shows it with clean_up_tokenization_spaces: without spaces at
/// the ends, before punctuation and English contractions, and around single apostrophes.
std::string clean_up_tokenization(const std::string& text);

}  // namespace moh
