#include "train/data/token_file_header.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"

namespace moh {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian, and so must the host be");

namespace {

constexpr std::string_view kMagic = "MOHTOKEN";
constexpr std::string_view kMakeAgain = "write it again with 'moh data tokenize'";
constexpr std::uint32_t kVersion = 1;

/// The header as it lies in the file.
struct RawHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes_per_token;
  std::uint64_t vocab_size;
  std::uint64_t num_tokens;
  std::uint64_t num_documents;
  std::uint64_t text_bytes;
  std::uint64_t tokenizer_hash;
  std::uint64_t payload_checksum;
  char tokenizer_name[kMaxTokenizerName + 1];
  std::uint64_t zero[3];
  std::uint64_t header_checksum;
};
static_assert(sizeof(RawHeader) == kTokenFileHeaderBytes);
static_assert(offsetof(RawHeader, header_checksum) == 120);

std::uint64_t checksum_of(const RawHeader& raw) {
  return XXH3_64bits(&raw, offsetof(RawHeader, header_checksum));
}

RawHeader read_raw(const InputFile& file) {
  if (!has_token_file_magic(file)) {
    file.fail("", "a moh token file", "other contents", "make one with 'moh data tokenize'");
  }
  if (file.size() < kTokenFileHeaderBytes) {
    file.fail("header", std::to_string(kTokenFileHeaderBytes) + " bytes", std::to_string(file.size()),
              std::string("the file is truncated: ").append(kMakeAgain));
  }
  RawHeader raw{};
  file.read(0, std::as_writable_bytes(std::span(&raw, 1)), "header");
  return raw;
}

void check_raw(const InputFile& file, const RawHeader& raw) {
  if (raw.version != kVersion) {
    file.fail(
        "format version", std::to_string(kVersion), std::to_string(raw.version),
        "the file comes from another release of moh: write it again with 'moh data tokenize' of this one");
  }
  if (raw.header_checksum != checksum_of(raw)) {
    file.fail("header", "bytes that match their checksum", "other bytes",
              std::string("the file is damaged: ").append(kMakeAgain));
  }
  // From here on only a file made on purpose, or a bug in the writer, can be wrong.
  constexpr auto kMaxTokens = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 8);
  const bool counts_ok = raw.num_tokens >= 1 && raw.num_tokens <= kMaxTokens && raw.num_documents >= 1 &&
                         raw.num_documents <= raw.num_tokens && raw.text_bytes <= kMaxTokens;
  if (!counts_ok) file.fail("header", "plausible counts", "impossible ones", kMakeAgain);
  if (raw.vocab_size < 1 || raw.vocab_size > std::numeric_limits<std::int32_t>::max()) {
    file.fail("vocabulary size", "1 ... 2147483647", std::to_string(raw.vocab_size), kMakeAgain);
  }
}

}  // namespace

std::array<std::byte, kTokenFileHeaderBytes> pack_token_file_header(const TokenFileInfo& info) {
  MOH_CHECK(info.tokenizer_name.size() <= kMaxTokenizerName, "tokenizer name too long for a token file");
  RawHeader raw{};
  std::copy(kMagic.begin(), kMagic.end(), raw.magic);
  raw.version = kVersion;
  raw.bytes_per_token = static_cast<std::uint32_t>(info.bytes_per_token());
  raw.vocab_size = static_cast<std::uint64_t>(info.vocab_size);
  raw.num_tokens = static_cast<std::uint64_t>(info.num_tokens);
  raw.num_documents = static_cast<std::uint64_t>(info.num_documents);
  raw.text_bytes = static_cast<std::uint64_t>(info.text_bytes);
  raw.tokenizer_hash = info.tokenizer_hash;
  raw.payload_checksum = info.payload_checksum;
  std::copy(info.tokenizer_name.begin(), info.tokenizer_name.end(), raw.tokenizer_name);
  raw.header_checksum = checksum_of(raw);
  return std::bit_cast<std::array<std::byte, kTokenFileHeaderBytes>>(raw);
}

TokenFileInfo read_token_file_header(const InputFile& file) {
  const RawHeader raw = read_raw(file);
  check_raw(file, raw);
  TokenFileInfo info;
  info.vocab_size = static_cast<std::int64_t>(raw.vocab_size);
  info.num_tokens = static_cast<std::int64_t>(raw.num_tokens);
  info.num_documents = static_cast<std::int64_t>(raw.num_documents);
  info.text_bytes = static_cast<std::int64_t>(raw.text_bytes);
  info.tokenizer_hash = raw.tokenizer_hash;
  info.payload_checksum = raw.payload_checksum;
  info.tokenizer_name =
      printable({raw.tokenizer_name, ::strnlen(raw.tokenizer_name, sizeof(raw.tokenizer_name))});

  if (raw.bytes_per_token != static_cast<std::uint32_t>(info.bytes_per_token())) {
    file.fail(
        "bytes per id",
        std::to_string(info.bytes_per_token()) + " for a vocabulary of " + std::to_string(info.vocab_size),
        std::to_string(raw.bytes_per_token), kMakeAgain);
  }
  const auto expected_size = kTokenFileHeaderBytes + static_cast<std::uint64_t>(info.payload_bytes());
  if (file.size() != expected_size) {
    const char* state =
        file.size() < expected_size ? "the file is truncated: " : "the file has bytes too many: ";
    file.fail("size",
              std::to_string(expected_size) + " bytes for " + std::to_string(info.num_tokens) + " tokens",
              std::to_string(file.size()), std::string(state).append(kMakeAgain));
  }
  return info;
}

bool has_token_file_magic(const InputFile& file) {
  std::array<char, kMagic.size()> start{};
  if (file.size() < start.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(start)), "header");
  return std::equal(start.begin(), start.end(), kMagic.begin());
}

}  // namespace moh
