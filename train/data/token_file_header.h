#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace moh {

class InputFile;

/// What the header of a token file says. The file is the header (128 bytes) and then the ids, without a gap,
/// all numbers little-endian:
///
///   byte  0  8 bytes  "MOHTOKEN"
///         8  u32      format version, 1
///        12  u32      bytes per id: 2 when the vocabulary has at most 65536 ids, else 4
///        16  u64      vocabulary size
///        24  u64      number of ids
///        32  u64      number of documents; the tokenizer's end-of-document id stands between two of them
///        40  u64      bytes of text that the ids stand for
///        48  u64      content hash of the tokenizer
///        56  u64      XXH3-64 of the ids as stored
///        64  32 bytes name of the tokenizer, padded with NUL
///        96  24 bytes zero
///       120  u64      XXH3-64 of bytes 0 ... 119
struct TokenFileInfo {
  std::int64_t vocab_size = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_documents = 0;
  std::int64_t text_bytes = 0;
  std::uint64_t tokenizer_hash = 0;
  std::uint64_t payload_checksum = 0;
  std::string tokenizer_name;

  std::int64_t bytes_per_token() const { return vocab_size <= 65536 ? 2 : 4; }
  std::int64_t payload_bytes() const { return num_tokens * bytes_per_token(); }
};

inline constexpr std::size_t kTokenFileHeaderBytes = 128;
inline constexpr std::size_t kMaxTokenizerName = 31;

std::array<std::byte, kTokenFileHeaderBytes> pack_token_file_header(const TokenFileInfo& info);

/// Reads and checks the header, and that the file is exactly as long as it says. Throws DataError naming the
/// file, what is wrong, and what to do.
TokenFileInfo read_token_file_header(const InputFile& file);

/// Whether the file starts as a token file does.
bool has_token_file_magic(const InputFile& file);

}  // namespace moh
