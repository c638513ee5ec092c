#include "train/tokenizers/tiktoken.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/bpe_tokenizer.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/named_tokens.h"
#include "train/tokenizers/tiktoken_file.h"

namespace moh {

namespace {

constexpr std::array<std::string_view, 2> kEndNames = {"<|end_of_text|>", "<|endoftext|>"};
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
  for (const std::string_view name : kEndNames) {
    if (const auto id = special_named(special, name)) return id;
  }
  return std::nullopt;
}

std::uint64_t hash_of(const TiktokenFile& file) {
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
  parts.content_hash = hash_of(file);
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
