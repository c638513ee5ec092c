#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "train/families/language/data/token_source.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The tokenizer for a model whose embedding has `rows` rows. One with more tokens, such as a `<pad>` that no
/// text has, is narrowed: its vocabulary ends at the rows, which is logged, and a text with a token beyond
/// them is refused (DataError, naming the token). `where` names the tokenizer in messages, `key` the setting
/// of the rows. Throws ConfigError if the token that ends documents, or one that texts begin with, has no
/// row.
std::unique_ptr<const Tokenizer> with_rows(std::unique_ptr<const Tokenizer> tokenizer, std::int64_t rows,
                                           const std::string& where,
                                           std::string_view key = "model.vocab_size");

/// The tokens of the whole tokenizer, of one that was narrowed, too.
std::int64_t whole_vocabulary(const Tokenizer& tokenizer);

/// The ids of a file, of which those from `rows` on are refused where they are read (DataError, naming it).
TokenSourcePtr within_rows(TokenSourcePtr ids, std::int64_t rows, std::string file);

}  // namespace moh
