#pragma once

#include <string>

#include "train/apps/serve/token_text.h"

namespace moh {

/// The JSON of GET /tokenizer_info: kind and size of the vocabulary, texts of the tokens that end and begin a
/// text and that pad (null where there is none), and the chat template beside the tokenizer, if there is one.
std::string tokenizer_info(const TokenText& text);

}  // namespace moh
