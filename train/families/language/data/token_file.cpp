#include "train/families/language/data/token_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "train/base/formats/is_safetensors.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/families/language/tokenizer_rows.h"

namespace moh {

namespace {

// ---- What a file says of itself ----

constexpr std::string_view kFormat = "moh-tokens";
/// Versions of files without and with marks: a reader of the first alone must not take a mark for damage.
constexpr std::string_view kVersion = "1", kVersionWithMarks = "2";

/// The value of a metadata key; "" if there is none.
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

/// The value of a metadata key as a number, checked against bounds; nothing if there is no such key.
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

const WeightInfo& tokens_of(const SafetensorsFile& file, bool marks) {
  constexpr std::string_view kTypes[] = {"U8", "U16", "U32", "I16", "I32", "I64"};
  const std::span<const std::string_view> types(kTypes + (marks ? 3 : 0), std::end(kTypes));
  const WeightInfo* tokens = file.find("tokens");
  const bool alone = tokens != nullptr && file.tensors().size() == 1;
  if (alone && std::ranges::find(types, tokens->stored_dtype) != types.end() && tokens->shape.rank() == 1 &&
      tokens->shape.numel() > 0)
    return *tokens;
  throw DataError(error_message(
      file.path().string(), "tensors",
      "one, tokens: " + std::string(marks ? "" : "U8, U16, U32, ") +
          "I16, I32 or I64 with one dimension, not empty",
      alone ? std::string(tokens->stored_dtype) + " " + to_string(tokens->shape)
            : std::to_string(file.tensors().size()) + (tokens == nullptr ? ", none of this name" : "")));
}

/// Parses and checks the metadata; messages say how to fix the file.
TokenFileInfo read_info(const SafetensorsFile& file) {
  require(entry_of(file, "format") == kFormat, file, "format", kFormat);
  const bool marks = entry_of(file, "version") == kVersionWithMarks;
  require(marks || entry_of(file, "version") == kVersion, file, "version", "1 or 2");
  const WeightInfo& tokens = tokens_of(file, marks);
  const auto vocab_size = number_of(file, "vocab_size", 1, std::numeric_limits<TokenId>::max());
  require(vocab_size.has_value(), file, "vocab_size", "the number of ids of the tokenizer");
  require(!entry_of(file, "tokenizer").empty(), file, "tokenizer", "its name");
  const auto prompt_tokens = marks ? number_of(file, "prompt_tokens", 0, tokens.shape.numel()) : std::nullopt;
  require(prompt_tokens.has_value() == marks, file, "prompt_tokens", "the number of tokens of prompts");
  return {.tokenizer_name = entry_of(file, "tokenizer"),
          .vocab_size = *vocab_size,
          .tokenizer_hash = entry_of(file, "tokenizer_hash"),
          .num_documents = number_of(file, "documents", 1, tokens.shape.numel()),
          .text_bytes = number_of(file, "text_bytes", 0, std::numeric_limits<std::int64_t>::max()),
          .checksum = entry_of(file, "checksum"),
          .source = entry_of(file, "source"),
          .prompt_tokens = prompt_tokens,
          .stored_dtype = tokens.stored_dtype,
          .num_tokens = tokens.shape.numel()};
}

// ---- Its ids ----

constexpr std::string_view kMakeAgain = "the file is damaged: write it again with 'moh data tokenize'";

template <class Visit>
void visit_stored(std::string_view stored_dtype, Visit visit) {
  if (stored_dtype == "U8") return visit.template operator()<std::uint8_t>();
  if (stored_dtype == "U16") return visit.template operator()<std::uint16_t>();
  if (stored_dtype == "U32") return visit.template operator()<std::uint32_t>();
  if (stored_dtype == "I32") return visit.template operator()<std::int32_t>();
  if (stored_dtype == "I16") return visit.template operator()<std::int16_t>();
  MOH_CHECK(stored_dtype == "I64", "a type of token files");
  visit.template operator()<std::int64_t>();
}

/// Throws unless all ids of a block are in the vocabulary. `first`: index of its first id, for the message.
template <class Stored>
void check_ids(const SafetensorsFile& file, const TokenFileInfo& info, std::int64_t first,
               std::span<const Stored> ids) {
  const auto is_beyond = [size = static_cast<std::uint64_t>(info.vocab_size),
                          marks = static_cast<Stored>(info.prompt_tokens ? -1 : 0)](Stored id) {
    // -1 for a mark, if there may be any: its complement is the id.
    const auto flip = static_cast<Stored>(std::is_signed_v<Stored> && id < 0 ? marks : 0);
    return static_cast<std::uint64_t>(static_cast<Stored>(id ^ flip)) >= size;  // also true for a negative id
  };
  bool any = false;
  for (const Stored id : ids) any |= is_beyond(id);  // branch-free, so that it is vectorised
  if (!any) return;
  const auto bad = std::ranges::find_if(ids, is_beyond);
  throw DataError(error_message(file.path().string(), "id " + std::to_string(first + (bad - ids.begin())),
                                "0 ... " + std::to_string(info.vocab_size - 1), std::to_string(*bad),
                                kMakeAgain));
}

/// Calls use(index of the first id, ids as stored) for checked blocks of [begin, begin + count).
template <class Stored, class Use>
void for_each_block(const SafetensorsFile& file, const TokenFileInfo& info, std::int64_t begin,
                    std::int64_t count, Use use) {
  std::array<Stored, (32 << 10) / sizeof(Stored)> block;
  for (std::int64_t done = 0; done < count;) {
    const auto step = std::min<std::int64_t>(count - done, static_cast<std::int64_t>(block.size()));
    const auto ids = std::span(block).first(static_cast<std::size_t>(step));
    file.read(file.tensors().front(), static_cast<std::uint64_t>(begin + done) * sizeof(Stored),
              std::as_writable_bytes(ids));
    check_ids(file, info, begin + done, std::span<const Stored>(ids));
    use(begin + done, std::span<const Stored>(ids));
    done += step;
  }
}

}  // namespace

WeightFile::Metadata metadata_of(const TokenFileInfo& info) {
  WeightFile::Metadata metadata{{"format", std::string(kFormat)},
                                {"version", std::string(info.prompt_tokens ? kVersionWithMarks : kVersion)},
                                {"tokenizer", info.tokenizer_name},
                                {"vocab_size", std::to_string(info.vocab_size)}};
  if (!info.tokenizer_hash.empty()) metadata["tokenizer_hash"] = info.tokenizer_hash;
  if (info.num_documents) metadata["documents"] = std::to_string(*info.num_documents);
  if (info.text_bytes) metadata["text_bytes"] = std::to_string(*info.text_bytes);
  if (!info.source.empty()) metadata["source"] = info.source;
  if (info.prompt_tokens) metadata["prompt_tokens"] = std::to_string(*info.prompt_tokens);
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
  const std::string prompts =
      info.prompt_tokens ? "prompt tokens: " + std::to_string(*info.prompt_tokens) + " (not trained on)\n"
                         : "";
  return "tokens      " + std::to_string(info.num_tokens) + " (" + std::to_string(bytes) +
         (bytes == 1 ? " byte" : " bytes") + " each)\n" + prompts + "documents   " +
         number(info.num_documents) + "\ntext bytes  " + number(info.text_bytes) + "\ntokenizer   " +
         info.tokenizer_name + " (" + (info.tokenizer_hash.empty() ? "no hash" : info.tokenizer_hash) +
         ")\nvocabulary  " + std::to_string(info.vocab_size) + "\nchecksum    " +
         (info.checksum.empty() ? "none" : info.checksum) + "\n";
}

TokenFileKind token_file_kind(const std::string& path) {
  const InputFile input(path, InputKind::kData);
  // The length of its header says what a file was that has been cut; a `.bin` may have ids of other
  // programs.
  const bool may_be_cut =
      std::filesystem::path(path).extension() != ".bin" && looks_like_safetensors(input.first_bytes(9));
  if (!is_safetensors(input) && !may_be_cut) return TokenFileKind::kNone;
  const SafetensorsFile tensors(path);
  const auto format = tensors.metadata().find("format");
  const bool is_tokens = format != tensors.metadata().end() && format->second == kFormat;
  return is_tokens ? TokenFileKind::kTokens : TokenFileKind::kOtherTensors;
}

std::shared_ptr<const TokenFile> TokenFile::open(const std::string& path) {
  if (token_file_kind(path) == TokenFileKind::kNone) {
    throw DataError(
        error_message(path, "", "a moh token file", "other contents",
                      "make one of text with 'moh data tokenize', of token ids of another program with "
                      "scripts/import_tokens.py"));
  }
  const std::shared_ptr<const TokenFile> file(new TokenFile(path));
  if (file->file_.tensors().front().bytes <= kVerifiedOnOpenBytes) file->verify();
  return file;
}

TokenFile::TokenFile(const std::string& path) : file_(path), info_(read_info(file_)) {}

void TokenFile::copy_marked(std::int64_t begin, std::span<TokenId> ids) const {
  MOH_CHECK(begin >= 0 && begin <= size() && static_cast<std::int64_t>(ids.size()) <= size() - begin,
            "TokenFile: range outside the file");
  visit_stored(info_.stored_dtype, [&]<class Stored>() {
    for_each_block<Stored>(file_, info_, begin, static_cast<std::int64_t>(ids.size()),
                           [&](std::int64_t first, std::span<const Stored> block) {
                             std::ranges::transform(block, ids.begin() + (first - begin),
                                                    [](Stored id) { return static_cast<TokenId>(id); });
                           });
  });
}

void TokenFile::verify() const {
  Checksum elements;
  visit_stored(info_.stored_dtype, [&]<class Stored>() {
    for_each_block<Stored>(file_, info_, 0, size(), [&](std::int64_t, std::span<const Stored> block) {
      elements.update(std::as_bytes(block));
    });
  });
  if (info_.checksum.empty()) return;
  const std::string found = token_file_checksum(elements, info_);
  if (found != info_.checksum)
    throw DataError(
        error_message(file_.path().string(), "", "checksum " + info_.checksum, found, kMakeAgain));
}

void TokenFile::require_tokenizer(const Tokenizer& tokenizer) const {
  const auto text = [](std::string_view name, std::string_view hash, std::int64_t vocab_size) {
    return "'" + std::string(name) + "' (" + std::string(hash) + (hash.empty() ? "" : ", ") +
           std::to_string(vocab_size) + " ids)";
  };
  const std::string hash = info_.tokenizer_hash.empty() ? "" : hash_text(tokenizer.content_hash());
  const std::string expected = text(tokenizer.name(), hash, whole_vocabulary(tokenizer));
  const std::string found = text(info_.tokenizer_name, info_.tokenizer_hash, info_.vocab_size);
  if (expected == found) return;
  throw DataError(error_message(
      file_.path().string(), "tokenizer", expected, found,
      "set the tokenizer that the file was made with, or write the file again with 'moh data tokenize'"));
}

}  // namespace moh
