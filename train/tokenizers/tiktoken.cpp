#include "train/tokenizers/tiktoken.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/bpe_tokenizer.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/named_tokens.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxTiktokenBytes = std::uint64_t{256} << 20;
/// The longest token: all its divisions are looked up.
constexpr std::size_t kMaxTokenBytes = 1024;

/// "IGhlbGxv 24748"; nothing for another line.
std::optional<TiktokenRank> rank_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view number = line.substr(space + 1);
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  TiktokenRank rank;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank.id);
  const bool sound = bytes && bytes->size() <= kMaxTokenBytes && error == std::errc() &&
                     end == number.data() + number.size() && rank.id >= 0 && rank.id <= kMaxTiktokenId;
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

std::vector<TiktokenRank> read_ranks(std::string_view text, const std::string& where) {
  std::vector<TiktokenRank> ranks;
  for_each_line(text, [&](std::int64_t number, std::string_view line) {
    std::optional<TiktokenRank> rank = rank_of(line);
    if (!rank) {
      throw DataError(error_message(where + ":" + std::to_string(number), "",
                                    "a token in base64, a space, and its rank", printable(line, 60)));
    }
    ranks.push_back(std::move(*rank));
  });
  return ranks;
}

void check_ids(const TiktokenFile& file, const std::string& where) {
  const std::int64_t most = most_id(file.ranks.size() + file.encoding.special.size());
  const auto check = [&](TokenId id) {
    if (id > most) {
      throw DataError(error_message(
          where, "ranks and special_tokens",
          "ids of at most " + std::to_string(most) + " for " + std::to_string(file.ranks.size()) + " ranks",
          std::to_string(id)));
    }
  };
  for (const TiktokenRank& rank : file.ranks) check(rank.id);
  for (const auto& [name, id] : file.encoding.special) check(id);
}

}  // namespace

bool looks_like_tiktoken(std::string_view first_bytes) {
  const std::size_t end = first_bytes.find('\n');
  if (end == std::string_view::npos) return false;
  std::string_view line = first_bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return rank_of(line).has_value();
}

TiktokenFile read_tiktoken_file(const std::filesystem::path& path) {
  TiktokenFile file;
  std::string text = read_text_file(path, InputKind::kData, kMaxTiktokenBytes);
  file.ranks = read_ranks(text, printable_path(path));
  file.encoding = tiktoken_encoding(path, file.ranks.size());
  std::ranges::sort(file.encoding.special);
  check_ids(file, printable_path(path));
  file.files.push_back({"tokenizer.tiktoken", std::move(text)});
  if (auto beside = tiktoken_json_beside(path)) file.files.push_back(std::move(*beside));
  return file;
}

BpeTables tiktoken_tables(const std::vector<TiktokenRank>& ranks, const std::string& where) {
  BpeTables tables;
  tables.byte_level = tables.ignore_merges = true;
  std::unordered_map<std::string_view, TokenId> ids;
  std::vector<std::uint8_t> used;
  std::size_t bytes = 0;
  for (const TiktokenRank& rank : ranks) {
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
  for (const TiktokenRank& rank : ranks) {
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

namespace {

constexpr std::array<std::string_view, 2> kTiktokenEndNames = {"<|end_of_text|>", "<|endoftext|>"};
constexpr std::string_view kBegin = "<|begin_of_text|>";

std::optional<TokenId> special_named(const SpecialTokens& tokens, std::string_view name) {
  const auto found = std::ranges::find(tokens, name, &SpecialTokens::value_type::first);
  return found == tokens.end() ? std::nullopt : std::optional(found->second);
}

/// Adds special tokens; their ids must differ, and be no ranks.
void add_special(const SpecialTokens& special, const std::string& where, BpeTokenizerParts& parts) {
  for (const auto& [name, id] : special) {
    if (const auto other = std::ranges::find(parts.added, id, &AddedToken::id); other != parts.added.end()) {
      throw DataError(error_message(where, "special_tokens, '" + printable(name) + "'",
                                    "an id that no other token has",
                                    std::to_string(id) + ", that of '" + printable(other->content) + "'"));
    }
    const auto place = static_cast<std::size_t>(id);
    if (place >= parts.bytes.size()) parts.bytes.resize(place + 1);
    if (!parts.bytes[place].empty()) {
      throw DataError(error_message(where, "special_tokens, '" + printable(name) + "'",
                                    "an id that is no rank", std::to_string(id)));
    }
    parts.added.push_back({.id = id, .content = name, .special = true});
  }
}

/// Adds, to be refused in texts, the tokens that files beside name and that the encoding does not have.
void refuse_others(const TiktokenFile& file, const std::filesystem::path& path, BpeTokenizerParts& parts) {
  for (const NamedToken& named : read_named_tokens(path)) {
    const std::string& content = named.token.content;
    const auto id = special_named(file.encoding.special, content);
    if (id && named.has_id() && named.token.id != *id) {
      throw DataError(error_message(named.file, named.place,
                                    "the id " + std::to_string(*id) + " of '" + printable(content) + "'",
                                    std::to_string(named.token.id)));
    }
    if (!id && std::ranges::find(file.ranks, content, &TiktokenRank::bytes) == file.ranks.end())
      parts.added.push_back({.id = kTokenWithoutId, .content = content});
  }
}

/// The special token that a tokenizer_config.json names at a key.
TokenId token_named(const SpecialTokens& special, const TokenizerUse& use, std::string_view key,
                    const std::string& name) {
  const auto id = special_named(special, name);
  if (!id) {
    throw DataError(
        error_message(use.file, key, "a special token of the encoding", "'" + printable(name) + "'"));
  }
  return *id;
}

std::optional<TokenId> end_of(const SpecialTokens& special, const TokenizerUse& use) {
  if (use.end) return token_named(special, use, "eos_token", *use.end);
  for (const std::string_view name : kTiktokenEndNames) {
    if (const auto id = special_named(special, name)) return id;
  }
  return std::nullopt;
}

std::uint64_t hash_of_ranks(const TiktokenFile& file) {
  std::string text = file.encoding.pattern;
  const auto add = [&](std::string_view token, TokenId id) {
    text.append(1, '\0').append(token).append(1, '\0').append(std::to_string(id));
  };
  for (const auto& [name, id] : file.encoding.special) add(name, id);
  for (const TiktokenRank& rank : file.ranks) add(rank.bytes, rank.id);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

std::unique_ptr<const Tokenizer> read_tiktoken(const std::filesystem::path& path) {
  const std::string where = printable_path(path);
  TiktokenFile file = read_tiktoken_file(path);
  BpeTokenizerParts parts;
  parts.name = "tokenizer.tiktoken";
  parts.content_hash = hash_of_ranks(file);
  parts.tables = tiktoken_tables(file.ranks, where);
  for (const TiktokenRank& rank : file.ranks) {
    const auto place = static_cast<std::size_t>(rank.id);
    if (place >= parts.bytes.size()) parts.bytes.resize(place + 1);
    parts.bytes[place] = rank.bytes;
  }
  add_special(file.encoding.special, where, parts);
  // Matches are the words; tiktoken drops the rest, of which the published patterns leave none.
  parts.pre_tokenizers.push_back(split_pre_tokenizer({with_unicode_16(file.encoding.pattern), where},
                                                     SplitBehavior::kRemoved, /*invert=*/true));
  refuse_others(file, path, parts);
  const TokenizerUse use = read_tokenizer_use(path);
  parts.end_of_document = end_of(file.encoding.special, use);
  const auto begin = special_named(file.encoding.special, kBegin);
  parts.beginning = use.begin ? token_named(file.encoding.special, use, "bos_token", *use.begin) : begin;
  if (begin && use.begins_with_bos.value_or(true)) parts.sequence_start = {*begin};
  parts.files = std::move(file.files);
  std::ranges::move(files_of_use(path), std::back_inserter(parts.files));
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace moh
