#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// A token that is found in a text before the text is normalised and cut into words (or, with `normalized`,
/// after it is normalised).
struct AddedToken {
  TokenId id = 0;  ///< or kTokenWithoutId
  std::string content;
  bool single_word = false;   ///< found only where no letters, digits or underscores are beside it
  bool strips_left = false;   ///< takes the white space before it
  bool strips_right = false;  ///< takes the white space after it
  bool normalized = false;
  bool special = false;  ///< has no text when decoded
};

/// The id of a token that a file beside the tokenizer's names and for which the tokenizer has none: a text
/// with it is refused, as it would be cut into pieces that the model never saw in its place.
inline constexpr TokenId kTokenWithoutId = -1;

/// Throws DataError for a token of kTokenWithoutId in a text.
[[noreturn]] void refuse_token(std::string_view content);

/// A part of a text: an added token, or text between them.
struct TextOrToken {
  std::string_view text;
  std::optional<TokenId> token;
};

/// Finds added tokens. Of those that begin at one place the longest counts. Immutable and thread-safe.
class AddedTokens {
 public:
  /// Tokens without content are left out.
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  bool empty() const { return tokens_.empty(); }
  /// Calls emit for the parts of a text, in order; none is empty. A token that `accepts` refuses at the bytes
  /// [begin, end) is text like any other.
  using Accepts = FunctionRef<bool(const AddedToken& token, std::size_t begin, std::size_t end)>;
  void split(std::string_view text, FunctionRef<void(const TextOrToken&)> emit, Accepts accepts) const;
  void split(std::string_view text, FunctionRef<void(const TextOrToken&)> emit) const {
    split(text, emit, [](const AddedToken&, std::size_t, std::size_t) { return true; });
  }

 private:
  /// A node of the trie of contents; children are a list.
  struct Node {
    std::int32_t token = -1, first_child = -1, sibling = -1;
    char byte = 0;
  };

  std::int32_t child_of(std::int32_t node, char byte) const;
  /// The longest token that begins at `begin`; -1: none.
  std::int32_t longest_at(std::string_view text, std::size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::vector<std::uint8_t> begins_;  // by byte: whether a token begins with it
};

}  // namespace moh
