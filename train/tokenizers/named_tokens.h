#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/tokenizers/added_vocabulary.h"

namespace moh {

/// A token that a file beside a tokenizer's names, which the tokenizer's own file may lack.
struct NamedToken {
  enum class Kind {
    kDecoder,  ///< an entry of added_tokens_decoder: with its id and its flags
    kId,       ///< an entry of added_tokens.json: with its id
    kRole,     ///< bos_token and its like
    kExtra,    ///< one of additional_special_tokens, extra_special_tokens, or of a role of this model alone
  };

  std::string file;   ///< printable path of the file that names it
  std::string place;  ///< its key there: "added_tokens_decoder.500"
  Kind kind = Kind::kExtra;
  AddedToken token;

  bool has_id() const { return kind == Kind::kDecoder || kind == Kind::kId; }
};

/// The tokens of tokenizer_config.json (added_tokens_decoder; bos_token, eos_token, unk_token, pad_token and
/// their like; additional_special_tokens or extra_special_tokens), and, where it has no added_tokens_decoder,
/// of special_tokens_map.json and added_tokens.json: in the order in which transformers adds them to those of
/// tokenizer.json. Throws DataError for files that are damaged.
std::vector<NamedToken> read_named_tokens(const std::filesystem::path& tokenizer_file);

/// Adds them to the tokens of a tokenizer.json, or of Marian's vocab.json, as transformers does, with their
/// flags. Throws DataError for an id that the library would not give, for one that another token has, and for
/// an eos_token that the file does not have.
void add_named_tokens(const std::filesystem::path& tokenizer_file, AddedVocabulary& added);

}  // namespace moh
