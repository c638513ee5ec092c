#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// The tokens of a tokenizer.json's model by name.
using Vocabulary = std::unordered_map<std::string_view, TokenId>;

/// The added tokens of a tokenizer with the ids that the library `tokenizers` gives them, whatever id a file
/// states: the one that the text has in the vocabulary or as an earlier added token, else the next free one.
class AddedVocabulary {
 public:
  /// The vocabulary must outlive the object.
  explicit AddedVocabulary(const Vocabulary& vocabulary);

  /// The id of a token that has this text, added or of the vocabulary; nothing if there is none.
  std::optional<TokenId> find(std::string_view content) const;
  /// The added token of this text; null if there is none.
  const AddedToken* find_added(std::string_view content) const;
  /// The id that a token with this text has, or gets when it is added.
  TokenId id_for(std::string_view content) const { return find(content).value_or(next_); }
  /// Adds a token with a text under id_for(its text); its own `id` is not looked at. One that was added with
  /// this text takes on its flags.
  void add(AddedToken token);
  /// The text that another token than `content` has under this id, of the vocabulary or added; "" if none.
  std::string other_of(TokenId id, std::string_view content) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const Vocabulary* vocabulary_;
  std::unordered_map<TokenId, std::string> names_;       // by id, of the vocabulary and of added tokens
  std::unordered_map<std::string, std::size_t> places_;  // by text, in tokens_
  std::vector<AddedToken> tokens_;
  TokenId next_;
};

}  // namespace moh
