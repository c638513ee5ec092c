#include "train/tokenizers/tiktoken_encodings.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr const char* kEncodingFile = "tiktoken.json";
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{16} << 20;

// The end of the text is written (?!\s|\S).
constexpr std::string_view kGpt2 =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kCl100k =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s+(?!\\s|\\S)|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
constexpr std::string_view kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kLlama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kQwen =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

constexpr std::pair<std::string_view, std::string_view> kPatterns[] = {
    {"gpt2", kGpt2}, {"cl100k", kCl100k}, {"o200k", kO200k}, {"llama3", kLlama3}, {"qwen", kQwen}};

/// Names with numbers of first ... last.
void add_numbered(const char* format, int first, int last, TokenId id, SpecialTokens& tokens) {
  for (int number = first; number <= last; ++number) {
    char name[48];
    std::snprintf(name, sizeof name, format, number);
    tokens.emplace_back(name, id++);
  }
}

SpecialTokens llama3_tokens() {
  SpecialTokens tokens = {{"<|begin_of_text|>", 128000},
                          {"<|end_of_text|>", 128001},
                          {"<|start_header_id|>", 128006},
                          {"<|end_header_id|>", 128007},
                          {"<|eot_id|>", 128009}};
  constexpr const char* kReserved = "<|reserved_special_token_%d|>";
  add_numbered(kReserved, 0, 3, 128002, tokens);
  add_numbered(kReserved, 4, 4, 128008, tokens);
  add_numbered(kReserved, 5, 250, 128010, tokens);
  return tokens;
}

SpecialTokens qwen_tokens() {
  SpecialTokens tokens = {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}};
  add_numbered("<|extra_%d|>", 0, 204, 151646, tokens);
  return tokens;
}

/// The published encoding with so many ranks.
std::optional<TiktokenEncoding> published_encoding(std::size_t num_ranks) {
  const auto of = [](std::string_view pattern, SpecialTokens special) {
    return TiktokenEncoding{std::string(pattern), std::move(special)};
  };
  switch (num_ranks) {
    case 50256:  // r50k_base, GPT-2
    case 50280:  // p50k_base
      return of(kGpt2, {{"<|endoftext|>", 50256}});
    case 100256:  // cl100k_base
      return of(kCl100k, {{"<|endoftext|>", 100257},
                          {"<|fim_prefix|>", 100258},
                          {"<|fim_middle|>", 100259},
                          {"<|fim_suffix|>", 100260},
                          {"<|endofprompt|>", 100276}});
    case 128000:
      return of(kLlama3, llama3_tokens());
    case 151643:
      return of(kQwen, qwen_tokens());
    case 199998:  // o200k_base
      return of(kO200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}});
    default:
      return std::nullopt;
  }
}

/// The pattern of a name: gpt2, cl100k, o200k, llama3, qwen.
std::optional<std::string> pattern_named(std::string_view name) {
  for (const auto& [known, pattern] : kPatterns) {
    if (known == name) return std::string(pattern);
  }
  return std::nullopt;
}

std::filesystem::path file_beside(const std::filesystem::path& ranks) {
  return ranks.parent_path() / kEncodingFile;
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
    if (name.empty() || !id.is_number_integer() || id < 0 || id > kMaxTiktokenId)
      fail("special_tokens", "ids of 0 ... " + std::to_string(kMaxTiktokenId) + " by token");
    encoding.special.emplace_back(name, id.get<TokenId>());
  }
  return encoding;
}

/// Characters that Unicode 15, 15.1 and 16 added, by the class that an expression names, as in a class of
/// PCRE2 (found by comparing all code points with tiktoken 0.14).
struct Newer {
  std::string_view name, characters;
};
constexpr std::string_view kNewerLu = "\\x{1c89}\\x{a7cb}\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}";
constexpr std::string_view kNewerLl = "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}";
constexpr std::string_view kNewerLm =
    "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}\\x{16d6c}\\x{1e030}-\\x{1e06d}\\x{1e4eb}";
constexpr std::string_view kNewerLo =
    "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{11240}"
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}"
    "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}"
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}"
    "\\x{1b132}\\x{1b155}\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}"
    "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
constexpr std::string_view kNewerM =
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-\\x{113c0}"
    "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}\\x{113e2}"
    "\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}"
    "\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}\\x{1e5ef}";
constexpr std::string_view kNewerN =
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}";

/// The newer characters of a class; "" for other classes.
std::string newer_of(std::string_view name) {
  if (name == "L") return newer_of("Lu") + newer_of("Ll") + newer_of("Lm") + newer_of("Lo");
  constexpr Newer kNewer[] = {{"Lu", kNewerLu}, {"Ll", kNewerLl}, {"Lm", kNewerLm},
                              {"Lo", kNewerLo}, {"M", kNewerM},   {"N", kNewerN}};
  for (const Newer& newer : kNewer) {
    if (newer.name == name) return std::string(newer.characters);
  }
  return {};
}

}  // namespace

TiktokenEncoding tiktoken_encoding(const std::filesystem::path& path, std::size_t num_ranks) {
  const std::filesystem::path beside = file_beside(path);
  if (std::filesystem::exists(beside)) return read_encoding(beside);
  if (auto known = published_encoding(num_ranks)) return std::move(*known);
  throw DataError(error_message(
      printable_path(path), "pattern", "that of a published encoding, by the number of ranks",
      std::to_string(num_ranks) + " ranks",
      "name it in a file " + std::string(kEncodingFile) +
          " beside: {\"pattern\": \"cl100k\", \"special_tokens\": {\"<|endoftext|>\": 100257}}, with gpt2, "
          "cl100k, o200k, llama3, qwen or a regular expression"));
}

std::optional<TokenizerFile> tiktoken_json_beside(const std::filesystem::path& path) {
  const std::filesystem::path beside = file_beside(path);
  if (!std::filesystem::exists(beside)) return std::nullopt;
  return TokenizerFile{kEncodingFile, read_text_file(beside, InputKind::kData, kMaxJsonBytes)};
}

std::string with_unicode_16(std::string_view expression) {
  std::string result;
  bool in_class = false;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    const char c = expression[at];
    if (c != '\\') {
      in_class = c == '[' || (in_class && c != ']');
      result += c;
      continue;
    }
    const bool is_property = expression.substr(at).starts_with("\\p{");
    const std::size_t end = is_property ? expression.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      result += expression.substr(at++, 2);
      continue;
    }
    const std::string newer = newer_of(expression.substr(at + 3, end - at - 3));
    const bool adds_class = !newer.empty() && !in_class;
    if (adds_class) result += '[';
    result += expression.substr(at, end + 1 - at);
    result += newer;
    if (adds_class) result += ']';
    at = end;
  }
  return result;
}

}  // namespace moh
