#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "train/tasks/data/input_files.h"
#include "train/tasks/language/data/token_file.h"

namespace moh {

/// Files of token ids that other programs wrote. None names its tokenizer.
enum class ForeignTokens {
  kNone,
  kNumpy,     ///< `.npy`
  kLlmC,      ///< llm.c's `.bin`, with a header of 1024 bytes
  kMegatron,  ///< Megatron-LM's `.idx` and `.bin`; either name stands for both
  kRaw,       ///< nanoGPT's `.bin`: ids and nothing else, of a type that the user says
};

/// The type of the ids of kRaw: kNoBinDtype, "uint16" or "uint32".
inline constexpr const char* kNoBinDtype = "none";

/// The kind of a file by its contents and its name; kRaw for a `.bin` with NUL bytes that is no token
/// file of moh, unless it was found in a folder and no type is given. It is asked before token_file_kind(): a
/// header of llm.c, and a type that is given, tell more than the first bytes of a safetensors file. Throws
/// DataError if the file cannot be read.
ForeignTokens foreign_tokens_kind(const InputPath& input, const std::string& bin_dtype);

/// Whether the file is the `.bin` of a Megatron-LM pair, of which the `.idx` is read.
bool has_megatron_index(const std::string& path);

/// Ids of a file, as they lie there; what is not in the vocabulary is found when it is read.
struct ForeignTokenFile {
  std::shared_ptr<const TokenFile> ids;
  /// The same with `separator` between documents where the ids have none; equal to `ids` for a file that does
  /// not say where documents end.
  TokenSourcePtr documents;
  std::string description;  ///< "Megatron-LM's index and ids"
};

/// Opens such a file for a vocabulary of `vocab_size` tokens, of the tokenizer `name`. Throws DataError,
/// naming the file, for one that is damaged, of other types than integers, or kRaw without a type.
ForeignTokenFile open_foreign_tokens(const InputPath& input, ForeignTokens kind, const std::string& bin_dtype,
                                     std::string_view name, std::int64_t vocab_size,
                                     std::optional<TokenId> separator);

}  // namespace moh
