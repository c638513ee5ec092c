#include "train/tokenizers/cut_text.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "train/tokenizers/tokenizer_json.h"

using namespace moh;

namespace {

std::filesystem::path source() {
  return MOH_SOURCE_DIR;
}

/// Prose, code, tables, blank lines, other scripts, a long row of blanks, and no line ends at all.
std::string mixed_text() {
  std::string text = read_file(source() / "README.md") + read_file(source() / "train/tokenizers/bpe.cpp");
  for (int i = 0; i < 40; ++i)
    text +=
        "Zürich 東京タワー 🙂 多头注意力为每个词元选择几个头。צפרו דג "
        "סקרן\r\n\r\n "
        "12345, "
        "67.\t";
  text += std::string(3000, ' ') + "end" + std::string(500, '\n');
  for (int i = 0; i < 300; ++i) text += "头注意力为每个词元选择";
  return text + " a</s>b<|endoftext|> New York zzz";
}

std::vector<TokenId> in_parts(const Tokenizer& tokenizer, std::string_view text, std::size_t size) {
  std::vector<TokenId> ids;
  for (bool first = true; !text.empty(); first = false) {
    std::size_t cut = 0, wanted = size;
    for (; cut == 0 && wanted < text.size(); wanted *= 2) cut = find_cut(tokenizer, text.substr(0, wanted));
    if (cut == 0) cut = text.size();
    first ? tokenizer.encode(text.substr(0, cut), ids) : tokenizer.encode_rest(text.substr(0, cut), ids);
    text.remove_prefix(cut);
  }
  return ids;
}

}  // namespace

TEST_CASE("cut_text: a text in parts has the ids of the whole") {
  const std::string text = mixed_text();
  for (const char* name : {"compatibility", "gpt2", "llama2", "llama3", "metaspace", "qwen2", "splits"}) {
    const auto tokenizer =
        read_tokenizer_json(source() / "tests/train/tokenizers/data" / (std::string(name) + ".json"));
    std::vector<TokenId> whole;
    tokenizer->encode(text, whole);
    for (const std::size_t size : {3000, 4099, 20000}) {
      INFO(name << " in parts of " << size);
      CHECK(in_parts(*tokenizer, text, size) == whole);
    }
  }
}

TEST_CASE("cut_text: bytes are cut anywhere, and a text without a place nowhere") {
  CHECK(find_cut(ByteTokenizer(), "abc") == 3);
  const auto tokenizer = read_tokenizer_json(source() / "tests/train/tokenizers/data/gpt2.json");
  CHECK(find_cut(*tokenizer, "") == 0);
  CHECK(find_cut(*tokenizer, "a") == 0);
  const std::string blanks(9000, ' ');
  CHECK(find_cut(*tokenizer, blanks) == 0);
}
