#include "train/tasks/language/data/token_file_info.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "core/error.h"
#include "train/formats/stored_dtype.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/tokenizer.h"

namespace moh {

namespace {

constexpr std::string_view kFormat = "moh-tokens", kVersion = "1";

/// The metadata's entry of that key; "" when there is none.
std::string entry_of(const SafetensorsFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : printable(found->second);
}

void require(bool sound, const SafetensorsFile& file, std::string_view key, std::string_view expected) {
  if (sound) return;
  const std::string found = entry_of(file, key);
  throw DataError(error_message(file.path().string(), "metadata, " + std::string(key), expected,
                                found.empty() ? "no such entry" : found,
                                "docs/token_files.md says what a token file has"));
}

/// The number that an entry holds, which must not be beyond its bounds; nothing when there is no such entry.
std::optional<std::int64_t> number_of(const SafetensorsFile& file, std::string_view key, std::int64_t least,
                                      std::int64_t most) {
  const std::string text = entry_of(file, key);
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool sound = error == std::errc() && *end == '\0' && value >= least && value <= most;
  require(sound, file, key, std::to_string(least) + " ... " + std::to_string(most));
  return value;
}

const WeightInfo& tokens_of(const SafetensorsFile& file) {
  constexpr std::string_view kTypes[] = {"U8", "U16", "U32", "I32", "I64"};
  const WeightInfo* tokens = file.find("tokens");
  const bool alone = tokens != nullptr && file.tensors().size() == 1;
  if (alone && std::ranges::find(kTypes, tokens->stored_dtype) != std::end(kTypes) &&
      tokens->shape.rank() == 1 && tokens->shape.numel() > 0)
    return *tokens;
  throw DataError(error_message(
      file.path().string(), "tensors", "one, tokens: U8, U16, U32, I32 or I64 with one dimension, not empty",
      alone ? std::string(tokens->stored_dtype) + " " + to_string(tokens->shape)
            : std::to_string(file.tensors().size()) + (tokens == nullptr ? ", none of this name" : "")));
}

}  // namespace

std::string_view stored_dtype_of(std::int64_t vocab_size) {
  if (vocab_size <= 1 << 8) return "U8";
  return vocab_size <= 1 << 16 ? "U16" : "I32";
}

TokenFileInfo read_token_file_info(const SafetensorsFile& file) {
  require(entry_of(file, "format") == kFormat, file, "format", kFormat);
  require(entry_of(file, "version") == kVersion, file, "version", kVersion);
  const WeightInfo& tokens = tokens_of(file);
  const auto vocab_size = number_of(file, "vocab_size", 1, std::numeric_limits<TokenId>::max());
  require(vocab_size.has_value(), file, "vocab_size", "the number of ids of the tokenizer");
  require(!entry_of(file, "tokenizer").empty(), file, "tokenizer", "its name");
  return {.tokenizer_name = entry_of(file, "tokenizer"),
          .vocab_size = *vocab_size,
          .tokenizer_hash = entry_of(file, "tokenizer_hash"),
          .num_documents = number_of(file, "documents", 1, tokens.shape.numel()),
          .text_bytes = number_of(file, "text_bytes", 0, std::numeric_limits<std::int64_t>::max()),
          .checksum = entry_of(file, "checksum"),
          .stored_dtype = tokens.stored_dtype,
          .num_tokens = tokens.shape.numel()};
}

WeightFile::Metadata metadata_of(const TokenFileInfo& info) {
  WeightFile::Metadata metadata{{"format", std::string(kFormat)},
                                {"version", std::string(kVersion)},
                                {"tokenizer", info.tokenizer_name},
                                {"vocab_size", std::to_string(info.vocab_size)}};
  if (!info.tokenizer_hash.empty()) metadata["tokenizer_hash"] = info.tokenizer_hash;
  if (info.num_documents) metadata["documents"] = std::to_string(*info.num_documents);
  if (info.text_bytes) metadata["text_bytes"] = std::to_string(*info.text_bytes);
  if (!info.checksum.empty()) metadata["checksum"] = info.checksum;
  return metadata;
}

std::string token_file_checksum(Checksum& elements, const TokenFileInfo& info) {
  const auto add = [&](const std::string& text) {
    elements.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (const auto& [key, value] : metadata_of(info)) {
    if (key == "checksum") continue;
    add(key);
    add(value);
  }
  return elements.hex();
}

std::string describe(const TokenFileInfo& info) {
  const int bytes = find_safetensors_dtype(info.stored_dtype)->bits / 8;
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : "not known";
  };
  return "tokens      " + std::to_string(info.num_tokens) + " (" + std::to_string(bytes) +
         (bytes == 1 ? " byte" : " bytes") + " each)\ndocuments   " + number(info.num_documents) +
         "\ntext bytes  " + number(info.text_bytes) + "\ntokenizer   " + info.tokenizer_name + " (" +
         (info.tokenizer_hash.empty() ? "no hash" : info.tokenizer_hash) + ")\nvocabulary  " +
         std::to_string(info.vocab_size) + "\nchecksum    " +
         (info.checksum.empty() ? "none" : info.checksum) + "\n";
}

TokenFileKind token_file_kind(const std::string& path) {
  const std::string first = InputFile(path, InputKind::kData).first_bytes(9);
  if (first.starts_with(kOldTokenFileMagic)) return TokenFileKind::kOld;
  if (!looks_like_safetensors(first)) return TokenFileKind::kNone;
  const SafetensorsFile tensors(path);
  const auto format = tensors.metadata().find("format");
  const bool is_tokens = format != tensors.metadata().end() && format->second == kFormat;
  return is_tokens ? TokenFileKind::kTokens : TokenFileKind::kOtherTensors;
}

}  // namespace moh
