#include "train/tasks/language/hf/hf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <string>

#include "train/io/durable_file.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

const std::string end_of_text(1, '\0');

/// A code point below 2048 in UTF-8.
std::string utf8(int point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

/// The character that stands for a byte in byte-level vocabularies since GPT-2: the byte's own in Latin-1
/// where that is visible, and one from U+0100 on for each of the others, in their order.
std::string character_of(int byte) {
  const auto is_visible = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD); };
  if (is_visible(byte)) return utf8(byte);
  int earlier = 0;
  for (int other = 0; other < byte; ++other) earlier += is_visible(other) ? 0 : 1;
  return utf8(0x100 + earlier);
}

Json vocabulary() {
  Json ids = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    ids[byte == ByteTokenizer::kEndOfDocument ? end_of_text : character_of(byte)] = byte;
  return ids;
}

/// Text to the characters of its bytes, and back; words are not split, as nothing is merged.
Json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

Json tokenizer_json() {
  const Json end = {{"id", ByteTokenizer::kEndOfDocument},
                    {"content", end_of_text},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"vocab", vocabulary()},
                      {"merges", Json::array()}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model", model}};
}

Json tokenizer_config_json(std::int64_t max_length) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"eos_token", end_of_text},
          {"model_max_length", max_length},
          {"clean_up_tokenization_spaces", false}};
}

void write_json(const std::filesystem::path& path, const Json& json) {
  write_file_durably(path, json.dump(2) + "\n");
}

}  // namespace

HfTokenIds byte_token_ids() {
  return {.eos = {ByteTokenizer::kEndOfDocument}};
}

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t max_length) {
  write_json(folder / "tokenizer.json", tokenizer_json());
  write_json(folder / "tokenizer_config.json", tokenizer_config_json(max_length));
}

}  // namespace moh
