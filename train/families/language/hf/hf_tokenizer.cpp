#include "train/families/language/hf/hf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/input_file.h"
#include "train/base/log/logging.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/tokenizers/tokenizer.h"
#include "train/tokenizers/write_tokenizer_json.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

const std::string end_of_text(1, '\0');
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
constexpr int kMaxDepth = 32;

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

OrderedJson vocabulary() {
  OrderedJson ids = OrderedJson::object();
  for (int byte = 0; byte < 256; ++byte)
    ids[byte == ByteTokenizer::kEndOfDocument ? end_of_text : character_of(byte)] = byte;
  return ids;
}

/// Text to the characters of its bytes, and back; words are not split, as nothing is merged.
OrderedJson byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

OrderedJson tokenizer_json() {
  const OrderedJson end = {{"id", ByteTokenizer::kEndOfDocument},
                           {"content", end_of_text},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}};
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"vocab", vocabulary()},
                             {"merges", OrderedJson::array()}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", OrderedJson::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model", model}};
}

OrderedJson tokenizer_config_json(const OrderedJson& bos, const OrderedJson& eos, std::int64_t max_length) {
  OrderedJson json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (!bos.is_null()) json["bos_token"] = bos;
  if (!eos.is_null()) json["eos_token"] = eos;
  json["model_max_length"] = max_length;
  json["clean_up_tokenization_spaces"] = false;
  return json;
}

/// The content of an added token; null if there is none of this id.
OrderedJson content_of(const OrderedJson& tokenizer, std::int64_t id) {
  if (!tokenizer.contains("added_tokens")) return {};
  for (const OrderedJson& token : tokenizer["added_tokens"]) {
    if (token.value("id", std::int64_t{-1}) == id) return token.value("content", OrderedJson());
  }
  return {};
}

std::string text_of(const OrderedJson& json) {
  return json.dump(2) + "\n";
}

/// Writes the configuration of the tokenizer.json in `folder`.
void write_tokenizer_config(const std::filesystem::path& folder, const HfTokenIds& tokens,
                            std::int64_t max_length) {
  const OrderedJson tokenizer = OrderedJson::parse(
      read_json_object(folder / "tokenizer.json", InputKind::kCheckpoint, kMaxBytes, kMaxDepth));
  const OrderedJson bos = tokens.bos ? content_of(tokenizer, *tokens.bos) : OrderedJson();
  const OrderedJson eos = tokens.eos.empty() ? OrderedJson() : content_of(tokenizer, tokens.eos.front());
  write_file_durably(folder / "tokenizer_config.json", text_of(tokenizer_config_json(bos, eos, max_length)));
}

/// False, with a warning, where there is none for the tokenizer's file.
bool write_tokenizer_json(const std::filesystem::path& file) {
  try {
    write_file_durably(file.parent_path() / "tokenizer.json", tokenizer_json_of(file));
    return true;
  } catch (const DataError& error) {
    log_warning(std::string("convert: no tokenizer.json for transformers: ") + error.what());
    return false;
  }
}

}  // namespace

HfTokenIds byte_token_ids() {
  return {.eos = {ByteTokenizer::kEndOfDocument}};
}

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t max_length) {
  write_file_durably(folder / "tokenizer.json", text_of(tokenizer_json()));
  write_file_durably(folder / "tokenizer_config.json",
                     text_of(tokenizer_config_json({}, end_of_text, max_length)));
}

void complete_tokenizer(const std::filesystem::path& folder, const HfTokenIds& tokens,
                        std::int64_t max_length) {
  const std::filesystem::path config = folder / "tokenizer_config.json";
  std::filesystem::path original;
  if (!std::filesystem::exists(folder / "tokenizer.json")) {
    original = tokenizer_file_in(folder);
    if (original.empty() || !write_tokenizer_json(original)) return;
  }
  if (!std::filesystem::exists(config)) write_tokenizer_config(folder, tokens, max_length);
  if (original.empty()) return;
  OrderedJson json =
      OrderedJson::parse(read_json_object(config, InputKind::kCheckpoint, kMaxBytes, kMaxDepth));
  json[kOriginalKey] = original.filename().string();
  write_file_durably(config, text_of(json));
}

bool is_byte_tokenizer(const std::filesystem::path& tokenizer_json_file) {
  const std::string ours = text_of(tokenizer_json());
  const InputFile file(tokenizer_json_file, InputKind::kCheckpoint);
  return file.size() == ours.size() && file.first_bytes(ours.size()) == ours;
}

}  // namespace moh
