#pragma once

#include <filesystem>
#include <string>

namespace moh {

/// The tokenizer.json of a SentencePiece model or a file of tiktoken's ranks, with which the library
/// `tokenizers` gives the same ids, but that it
/// - finds control pieces and the unknown one in a text, where sentencepiece does not;
/// - applies normalisation rules to characters with combining marks in another way;
/// - of different pairs that make one token merges the first in the list before the leftmost.
/// Throws DataError for what it has no form for: unused pieces, characters that are in pieces and none
/// themselves, special tokens that are called as a rank is in the alphabet of bytes.
std::string tokenizer_json_of(const std::filesystem::path& file);

}  // namespace moh
