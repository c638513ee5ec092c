#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/formats/safetensors.h"
#include "train/io/checksum.h"

namespace moh {

/// What a token file says of itself, in its metadata and in the header of its tensor: docs/token_files.md
/// describes the format.
struct TokenFileInfo {
  std::string tokenizer_name;
  std::int64_t vocab_size = 0;
  std::string tokenizer_hash;  ///< "" for none, as that of the checksum
  std::optional<std::int64_t> num_documents, text_bytes;
  std::string checksum;
  std::string_view stored_dtype;  ///< of the elements, in the words of safetensors
  std::int64_t num_tokens = 0;
};

/// The smallest type that moh stores the ids of a vocabulary as.
std::string_view stored_dtype_of(std::int64_t vocab_size);

/// Reads and checks what an open file says of itself. Throws DataError naming the file, what is wrong, and
/// what to do.
TokenFileInfo read_token_file_info(const SafetensorsFile& file);
WeightFile::Metadata metadata_of(const TokenFileInfo& info);
/// The checksum of a file, when `elements` has been updated with all its elements.
std::string token_file_checksum(Checksum& elements, const TokenFileInfo& info);

/// "tokens      1115394 (1 byte each)\n...", for people.
std::string describe(const TokenFileInfo& info);

/// What a file is, by its first bytes and, for safetensors, by its metadata.
enum class TokenFileKind {
  kTokens,        ///< a token file
  kOtherTensors,  ///< another safetensors file
  kOld,           ///< a token file of moh's earlier format (old_token_file.h)
  kNone,          ///< something else
};

/// Throws DataError when the file cannot be read, or begins as a safetensors file and is a damaged one.
TokenFileKind token_file_kind(const std::string& path);

}  // namespace moh
