#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/added_vocabulary.h"

namespace moh {

/// The vocabulary of a Marian model, vocab.json: an object of ids by token, {"</s>": 0, "<unk>": 1, ...}.
struct MarianVocabulary {
  std::string file;                 ///< its path, for messages
  std::vector<std::string> tokens;  ///< by id; empty: no token has the id

  /// Ids by token; the texts are those of this object.
  Vocabulary ids() const;
};

/// Whether a file that begins so may be such a vocabulary: an object whose first member is a number.
bool looks_like_vocabulary(std::string_view first_bytes);

/// Parses the text of the file `path`, which is only named. Throws DataError for another text, for ids that
/// two tokens have, and for ids that are large for the number of tokens.
MarianVocabulary parse_marian_vocabulary(const std::string& text, const std::filesystem::path& path);

}  // namespace moh
