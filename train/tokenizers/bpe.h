#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/tokenizers/flat_table.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// The tables of a byte-pair encoding.
struct BpeTables {
  /// A token as the encoding sees it: of a byte-level one its bytes, of another its text.
  struct Token {
    std::string text;
    TokenId id = 0;
  };
  struct Merge {
    TokenId left = 0, right = 0, merged = 0;
  };

  std::vector<Token> tokens;
  std::vector<Merge> merges;  ///< the first is applied first
  /// By merge: those of lower rank are applied first, the leftmost of equal ones; empty: the order of merges.
  std::vector<std::int32_t> ranks;
  bool byte_level = false;  ///< words begin as bytes; otherwise as characters
  /// A word that is a token is not encoded by merges.
  bool ignore_merges = false;
  /// Ids of <0x00> ... <0xFF>, for characters without a token, -1 for a byte without one: a character is
  /// written as bytes if all of its bytes have one. Empty: no character is.
  std::vector<TokenId> byte_tokens;
  /// For what has no token; a row of such characters becomes one with `fuse_unknown`.
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;
};

/// Byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909): a word begins as a row of bytes or
/// characters; of all neighbouring pairs with a merge the first in the list of merges, and of equal ones the
/// leftmost, is replaced by its token, until there is none. Immutable and thread-safe.
class Bpe {
 public:
  /// The tables must be consistent: ids of merges are those of tokens.
  explicit Bpe(BpeTables tables);

  /// Appends the ids of a word, valid UTF-8 unless byte_level. Throws DataError for a character that the
  /// vocabulary cannot express.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  struct Merged {
    std::int32_t rank = -1;
    TokenId id = -1;
  };

  void begin(std::string_view word, std::vector<TokenId>& symbols) const;
  bool begin_as_bytes(std::string_view character, std::vector<TokenId>& symbols) const;
  void begin_unknown(std::string_view character, bool& unknown_waits, std::vector<TokenId>& symbols) const;
  void merge(std::vector<TokenId>& symbols) const;
  void merge_runs(const std::vector<TokenId>& symbols, std::vector<TokenId>& ids) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(std::vector<TokenId>& symbols) const;
  Merged merge_of(TokenId left, TokenId right) const;
  void find_neighbours(const std::vector<BpeTables::Merge>& merges,
                       const std::vector<BpeTables::Token>& tokens);

  BpeTables rules_;  // without tokens and merges
  TextTable tokens_;
  PairTable merges_;
  PairTable neighbours_;             // symbols that are side by side in a token
  std::vector<std::uint8_t> whole_;  // by token: whether merges make it of its own text
  std::vector<TokenId> bytes_;       // tokens of single bytes; -1: none
};

}  // namespace moh
