#include "train/tasks/language/data/old_token_file.h"

#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"

namespace moh {

static_assert(std::endian::native == std::endian::little, "numbers in files are those of the host");

namespace {

constexpr std::string_view kMakeAgain = "the file is damaged: write it again with 'moh data tokenize'";

/// The header, which the ids follow immediately. Numbers are little-endian.
struct RawHeader {
  char magic[8];
  std::uint32_t version, bytes_per_id;  // 1; 2 when the vocabulary has at most 65536 ids, else 4
  std::uint64_t vocab_size, num_tokens, num_documents, text_bytes, tokenizer_hash;
  std::uint64_t ids_checksum;  // XXH3 with 64 bits
  char tokenizer_name[32];     // padded with NUL
  std::uint64_t zero[3];
  std::uint64_t header_checksum;  // of all fields before it
};
static_assert(sizeof(RawHeader) == 128 && offsetof(RawHeader, header_checksum) == 120);

bool is_plausible(const RawHeader& raw) {
  constexpr auto kMaxTokens = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 8);
  return raw.version == 1 && raw.num_tokens >= 1 && raw.num_tokens <= kMaxTokens && raw.num_documents >= 1 &&
         raw.num_documents <= raw.num_tokens && raw.text_bytes <= kMaxTokens && raw.vocab_size >= 1 &&
         raw.vocab_size <= std::numeric_limits<std::int32_t>::max() &&
         raw.bytes_per_id == (raw.vocab_size <= 65536 ? 2 : 4);
}

RawHeader read_header(const InputFile& file) {
  RawHeader raw{};
  file.read(0, std::as_writable_bytes(std::span(&raw, 1)), "header");
  const bool sound = raw.header_checksum == XXH3_64bits(&raw, offsetof(RawHeader, header_checksum));
  if (!sound || !is_plausible(raw))
    file.fail("header", "bytes that match their checksum", "other bytes", kMakeAgain);
  const std::uint64_t bytes = sizeof(RawHeader) + raw.num_tokens * raw.bytes_per_id;
  if (file.size() != bytes)
    file.fail("size", std::to_string(bytes) + " bytes", std::to_string(file.size()), kMakeAgain);
  return raw;
}

TokenFileInfo info_of(const RawHeader& raw) {
  TokenFileInfo info;
  info.tokenizer_name =
      printable({raw.tokenizer_name, ::strnlen(raw.tokenizer_name, sizeof raw.tokenizer_name)});
  info.vocab_size = static_cast<std::int64_t>(raw.vocab_size);
  info.tokenizer_hash = hash_text(raw.tokenizer_hash);
  info.num_documents = static_cast<std::int64_t>(raw.num_documents);
  info.text_bytes = static_cast<std::int64_t>(raw.text_bytes);
  info.stored_dtype = raw.bytes_per_id == 2 ? "U16" : "U32";
  info.num_tokens = static_cast<std::int64_t>(raw.num_tokens);
  return info;
}

std::uint64_t checksum_of(const TokenFile& file) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  file.stream(
      [&](std::span<const std::byte> block) { XXH3_64bits_update(state.get(), block.data(), block.size()); });
  return XXH3_64bits_digest(state.get());
}

}  // namespace

std::shared_ptr<const TokenFile> open_old_token_file(const std::string& path, bool verify) {
  const auto input = std::make_shared<const InputFile>(path, InputKind::kData);
  const RawHeader raw = read_header(*input);
  const auto read = [input](std::uint64_t offset, std::span<std::byte> to) {
    input->read(sizeof(RawHeader) + offset, to, "ids");
  };
  auto file = std::make_shared<const TokenFile>(path, info_of(raw), read);
  if (verify && checksum_of(*file) != raw.ids_checksum)
    input->fail("ids", "checksum " + hash_text(raw.ids_checksum), "another one", kMakeAgain);
  return file;
}

std::string conversion_of_old_token_file(const std::string& path) {
  return "moh data tokenize --input " + path + " --output NEW.safetensors";
}

}  // namespace moh
