#include "train/tokenizers/tiktoken.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tokenizers/bpe_tokenizer.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/tiktoken_encodings.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20, kMaxJsonBytes = std::uint64_t{16} << 20;
/// Ids are places in arrays: a file must not make them large.
constexpr TokenId kMaxId = 1 << 24;
/// Of a token: all its divisions are looked up.
constexpr std::size_t kMaxTokenBytes = 1024;
constexpr const char* kEncodingFile = "tiktoken.json";
constexpr std::array<std::string_view, 2> kEndNames = {"<|end_of_text|>", "<|endoftext|>"};
constexpr std::string_view kBegin = "<|begin_of_text|>";

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes of a text in base64 with padding; nothing for another text.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i + padding < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  return bytes;
}

struct Rank {
  std::string bytes;
  TokenId id = 0;
};

/// "IGhlbGxv 24748"; nothing for another line.
std::optional<Rank> rank_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view number = line.substr(space + 1);
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  Rank rank;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank.id);
  const bool sound = bytes && bytes->size() <= kMaxTokenBytes && error == std::errc() &&
                     end == number.data() + number.size() && rank.id >= 0 && rank.id <= kMaxId;
  if (!sound) return std::nullopt;
  rank.bytes = std::move(*bytes);
  return rank;
}

/// The file's lines without the ends of lines, but for empty ones.
template <class Use>
void for_each_line(std::string_view text, Use use) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) use(number, line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<Rank> read_ranks(std::string_view text, const std::string& where) {
  std::vector<Rank> ranks;
  for_each_line(text, [&](std::int64_t number, std::string_view line) {
    std::optional<Rank> rank = rank_of(line);
    if (!rank) {
      throw DataError(error_message(where + ":" + std::to_string(number), "",
                                    "a token in base64, a space, and its rank", printable(line, 60)));
    }
    ranks.push_back(std::move(*rank));
  });
  return ranks;
}

/// All neighbours whose bytes together are a token are merged, the token of the lowest rank first. Throws
/// DataError for tokens that do not differ, and unless all single bytes are tokens.
BpeTables tables_of(const std::vector<Rank>& ranks, const std::string& where) {
  BpeTables tables;
  tables.byte_level = tables.ignore_merges = true;
  std::unordered_map<std::string_view, TokenId> ids;
  std::vector<std::uint8_t> used;
  std::size_t bytes = 0;
  for (const Rank& rank : ranks) {
    const auto place = static_cast<std::size_t>(rank.id);
    if (place >= used.size()) used.resize(place + 1);
    if (used[place]++ != 0 || !ids.emplace(rank.bytes, rank.id).second)
      throw DataError(error_message(where, "tokens", "ranks and tokens that differ",
                                    "rank " + std::to_string(rank.id) + " twice, or its token"));
    tables.tokens.push_back({rank.bytes, rank.id});
    bytes += rank.bytes.size() == 1 ? 1 : 0;
  }
  if (bytes != 256)
    throw DataError(error_message(where, "tokens", "all 256 single bytes", std::to_string(bytes)));
  for (const Rank& rank : ranks) {
    const std::string_view token = rank.bytes;
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      tables.merges.push_back({left->second, right->second, rank.id});
      tables.ranks.push_back(rank.id);
    }
  }
  return tables;
}

/// The encoding that a tiktoken.json describes.
TiktokenEncoding read_encoding(const std::filesystem::path& path) {
  const Json json = Json::parse(read_json_object(path, InputKind::kData, kMaxJsonBytes, /*max_depth=*/4));
  const auto fail = [&](std::string_view key, std::string_view expected) {
    throw DataError(
        error_message(printable_path(path), key, expected, json.contains(key) ? "something else" : "none"));
  };
  TiktokenEncoding encoding;
  if (!json.contains("pattern") || !json["pattern"].is_string())
    fail("pattern", "gpt2, cl100k, o200k, llama3, qwen, or a regular expression");
  const auto pattern = json["pattern"].get<std::string>();
  encoding.pattern = pattern_named(pattern).value_or(pattern);
  if (!json.contains("special_tokens")) return encoding;
  if (!json["special_tokens"].is_object()) fail("special_tokens", "an object of ids by token");
  for (const auto& [name, id] : json["special_tokens"].items()) {
    if (name.empty() || !id.is_number_integer() || id < 0 || id > kMaxId)
      fail("special_tokens", "ids of 0 ... " + std::to_string(kMaxId) + " by token");
    encoding.special.emplace_back(name, id.get<TokenId>());
  }
  return encoding;
}

TiktokenEncoding encoding_of(const std::filesystem::path& path, std::size_t num_ranks) {
  const std::filesystem::path beside = path.parent_path() / kEncodingFile;
  if (std::filesystem::exists(beside)) return read_encoding(beside);
  if (auto known = published_encoding(num_ranks)) return std::move(*known);
  throw DataError(error_message(
      printable_path(path), "pattern", "that of a published encoding, by the number of ranks",
      std::to_string(num_ranks) + " ranks",
      "name it in a file " + std::string(kEncodingFile) +
          " beside: {\"pattern\": \"cl100k\", \"special_tokens\": {\"<|endoftext|>\": 100257}}, with gpt2, "
          "cl100k, o200k, llama3, qwen or a regular expression"));
}

std::optional<TokenId> special_named(const SpecialTokens& tokens, std::string_view name) {
  const auto found = std::ranges::find(tokens, name, &SpecialTokens::value_type::first);
  return found == tokens.end() ? std::nullopt : std::optional(found->second);
}

/// Adds special tokens; their ids must be no ranks.
void add_special(const SpecialTokens& special, const std::string& where, BpeTokenizerParts& parts) {
  for (const auto& [name, id] : special) {
    const auto place = static_cast<std::size_t>(id);
    if (place >= parts.bytes.size()) parts.bytes.resize(place + 1);
    if (!parts.bytes[place].empty()) {
      throw DataError(error_message(where, "special_tokens, '" + printable(name) + "'",
                                    "an id that is no rank", std::to_string(id)));
    }
    parts.added.push_back({.id = id, .content = name, .special = true});
  }
}

std::optional<TokenId> end_of(const SpecialTokens& special, const TokenizerUse& use) {
  if (use.end) {
    const auto id = special_named(special, *use.end);
    if (!id)
      throw DataError(error_message(use.file, "eos_token", "a special token of the encoding",
                                    "'" + printable(*use.end) + "'"));
    return id;
  }
  for (const std::string_view name : kEndNames) {
    if (const auto id = special_named(special, name)) return id;
  }
  return std::nullopt;
}

std::uint64_t hash_of(const TiktokenEncoding& encoding, const std::vector<Rank>& ranks) {
  std::string text = encoding.pattern;
  const auto add = [&](std::string_view token, TokenId id) {
    text.append(1, '\0').append(token).append(1, '\0').append(std::to_string(id));
  };
  for (const auto& [name, id] : encoding.special) add(name, id);
  for (const Rank& rank : ranks) add(rank.bytes, rank.id);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

bool looks_like_tiktoken(std::string_view first_bytes) {
  const std::size_t end = first_bytes.find('\n');
  if (end == std::string_view::npos) return false;
  std::string_view line = first_bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return rank_of(line).has_value();
}

std::unique_ptr<const Tokenizer> read_tiktoken(const std::filesystem::path& path) {
  const std::string where = printable_path(path);
  std::string text = read_text_file(path, InputKind::kData, kMaxFileBytes);
  const std::vector<Rank> ranks = read_ranks(text, where);
  TiktokenEncoding encoding = encoding_of(path, ranks.size());
  std::ranges::sort(encoding.special);
  BpeTokenizerParts parts;
  parts.name = "tokenizer.tiktoken";
  parts.content_hash = hash_of(encoding, ranks);
  parts.tables = tables_of(ranks, where);
  for (const Rank& rank : ranks) {
    const auto place = static_cast<std::size_t>(rank.id);
    if (place >= parts.bytes.size()) parts.bytes.resize(place + 1);
    parts.bytes[place] = rank.bytes;
  }
  add_special(encoding.special, where, parts);
  // What matches are the words; tiktoken drops the rest, of which the published patterns leave none.
  parts.pre_tokenizers.push_back(split_pre_tokenizer({with_unicode_16(encoding.pattern), where},
                                                     SplitBehavior::kRemoved, /*invert=*/true));
  const TokenizerUse use = read_tokenizer_use(path);
  parts.end_of_document = end_of(encoding.special, use);
  const auto begin = special_named(encoding.special, kBegin);
  if (begin && use.begins_with_bos.value_or(true)) parts.sequence_start = {*begin};
  parts.files = files_of_use(path);
  const std::filesystem::path beside = path.parent_path() / kEncodingFile;
  if (std::filesystem::exists(beside))
    parts.files.insert(parts.files.begin(),
                       {kEncodingFile, read_text_file(beside, InputKind::kData, kMaxJsonBytes)});
  parts.files.insert(parts.files.begin(), {"tokenizer.tiktoken", std::move(text)});
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace moh
