#include "train/tokenizers/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20, kMaxJsonBytes = std::uint64_t{16} << 20;
/// Ids are places in arrays: a file must not make them large.
constexpr TokenId kMaxId = 1 << 24;
/// The longest token: all its divisions are looked up.
constexpr std::size_t kMaxTokenBytes = 1024;
constexpr const char* kEncodingFile = "tiktoken.json";

/// "IGhlbGxv 24748"; nothing for another line.
std::optional<TiktokenRank> rank_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view number = line.substr(space + 1);
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  TiktokenRank rank;
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

}  // namespace

bool looks_like_tiktoken(std::string_view first_bytes) {
  const std::size_t end = first_bytes.find('\n');
  if (end == std::string_view::npos) return false;
  std::string_view line = first_bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return rank_of(line).has_value();
}

namespace {

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

TiktokenFile read_tiktoken_file(const std::filesystem::path& path) {
  TiktokenFile file;
  std::string text = read_text_file(path, InputKind::kData, kMaxFileBytes);
  file.ranks = read_ranks(text, printable_path(path));
  file.encoding = encoding_of(path, file.ranks.size());
  std::ranges::sort(file.encoding.special);
  check_ids(file, printable_path(path));
  file.files.push_back({"tokenizer.tiktoken", std::move(text)});
  const std::filesystem::path beside = path.parent_path() / kEncodingFile;
  if (std::filesystem::exists(beside))
    file.files.push_back({kEncodingFile, read_text_file(beside, InputKind::kData, kMaxJsonBytes)});
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

}  // namespace moh
