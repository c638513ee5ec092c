#include "tests/train/tokenizers/golden.h"

#include <catch2/catch.hpp>
#include <span>

#include "tests/support/sha256.h"
#include "tests/support/temporary_folder.h"

namespace moh::test {

namespace {

std::string hash_of(const std::vector<TokenId>& ids) {
  return sha256_hex(std::as_bytes(std::span(ids)));
}

/// The texts of make_golden.py's blocks(), encoded.
std::vector<TokenId> ids_of_plane(const Tokenizer& tokenizer, std::uint32_t plane) {
  std::vector<TokenId> ids;
  for (std::uint32_t begin = plane << 16; begin < (plane + 1) << 16; begin += 256) {
    if (begin >= 0xd800 && begin < 0xe000) continue;  // surrogates
    for (const std::string_view between : {"", " ", "a"}) {
      std::string text;
      for (std::uint32_t code = begin; code < begin + 256; ++code) {
        if (code > begin) text += between;
        add_utf8(code, text);
      }
      tokenizer.encode(text, ids);
    }
  }
  return ids;
}

}  // namespace

std::filesystem::path tokenizer_tests() {
  return std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/tokenizers";
}

nlohmann::json golden_file(std::string_view name) {
  return nlohmann::json::parse(read_file(tokenizer_tests() / name));
}

nlohmann::json gpt2_json() {
  return golden_file("data/gpt2.json");
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  if (tokenizer.drops_leading_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
  return with_valid_utf8(bytes);
}

void add_utf8(std::uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80U | (code >> (6 * i) & 0x3fU));
}

void check_texts_and_planes(const std::string& name, const Tokenizer& tokenizer, const nlohmann::json& texts,
                            const nlohmann::json& expected, std::span<const std::uint32_t> planes) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INFO(name << ", text " << i);
    const std::vector<TokenId> ids = ids_of(tokenizer, texts[i].get<std::string>());
    CHECK(ids == expected["ids"][i].get<std::vector<TokenId>>());
    if (!expected["decoded"][i].is_null())
      CHECK(decoded(tokenizer, ids) == expected["decoded"][i].get<std::string>());
  }
  for (const std::uint32_t plane : planes) {
    INFO(name << ", plane " << plane);
    CHECK(hash_of(ids_of_plane(tokenizer, plane)) == expected["planes"][plane].get<std::string>());
  }
}

void check_files(const std::string& name, const Tokenizer& tokenizer, const std::filesystem::path& shared,
                 const nlohmann::json& expected) {
  for (const auto& [file, hash] : expected["files"].items()) {
    INFO(name << ", " << file);
    CHECK(hash_of(ids_of(tokenizer, read_file(shared / "data" / file))) == hash.get<std::string>());
  }
}

}  // namespace moh::test
