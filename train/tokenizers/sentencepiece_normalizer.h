#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/normalizer.h"
#include "train/tokenizers/piece_trie.h"
#include "train/tokenizers/sentencepiece_model.h"

namespace moh {

/// A precompiled character map: which texts a normaliser replaces, and by what. It is a double array
/// (Aoe 1989), as of the library Darts-clone, followed by the replacements, each ended by a NUL. Look-ups
/// stay within it, whatever it holds.
class CharacterMap {
 public:
  /// `bytes` may be empty. Throws DataError, naming `where`, unless the sizes are sound.
  CharacterMap(std::string_view bytes, std::string_view where);

  struct Match {
    std::size_t bytes = 0;  ///< of the text that is replaced
    std::string_view by;
  };
  /// The longest rule for the beginning of a text.
  std::optional<Match> match(std::string_view text) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

/// The normaliser of a SentencePiece model: rules, extra spaces, the space before a text, and spaces written
/// as U+2581. User-defined pieces are not changed. Immutable and thread-safe.
class SentencePieceNormalizer {
 public:
  /// `user_defined` must outlive this object.
  SentencePieceNormalizer(const SentencePieceModel& model, const PieceTrie& user_defined,
                          std::string_view where);

  /// `text` is valid UTF-8. In the middle of a text nothing is put before it, and its leading spaces are not
  /// extra.
  std::string operator()(std::string_view text, TextPlace place) const;

 private:
  /// The text's first unit, and what becomes of it.
  CharacterMap::Match first_unit(std::string_view text) const;
  void append(std::string_view text, std::string& result) const;

  CharacterMap map_;
  const PieceTrie& user_defined_;
  bool adds_prefix_, removes_extra_spaces_;
  std::string space_;
};

}  // namespace moh
