#include "train/tokenizers/write_tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "train/tokenizers/byte_level.h"
#include "train/tokenizers/tiktoken_encodings.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// As ByteLevel of the library `tokenizers` has it.
constexpr std::string_view kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

std::string expression_of(WordPattern pattern) {
  return pattern == WordPattern::kGpt2 ? std::string(kGpt2Words) : *pattern_named("llama3");
}

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json pre_tokenizer_json(WordPattern pattern) {
  if (pattern == WordPattern::kGpt2) return byte_level(true);
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", expression_of(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

}  // namespace

std::optional<WordPattern> word_pattern_named(std::string_view name) {
  if (name == "gpt2") return WordPattern::kGpt2;
  if (name == "llama3") return WordPattern::kLlama3;
  return std::nullopt;
}

PreTokenizers pre_tokenizers_of(WordPattern pattern) {
  PreTokenizers steps;
  steps.push_back(split_pre_tokenizer({expression_of(pattern), "pattern of words"}, SplitBehavior::kIsolated,
                                      /*invert=*/false));
  return steps;
}

std::string tokenizer_json_of(const LearnedBpe& bpe, std::size_t num_special, WordPattern pattern) {
  Json::object_t vocabulary;
  Json merges = Json::array(), added = Json::array();
  std::vector<std::string> names;
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    names.push_back(id < num_special ? bpe.tokens[id] : to_byte_level(bpe.tokens[id]));
    vocabulary.Container::emplace_back(names.back(), id);  // all differ: no look-up among all
    if (id >= num_special) continue;
    added.push_back({{"id", id},
                     {"content", names.back()},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& [left, right] : bpe.merges)
    merges.push_back({names[static_cast<std::size_t>(left)], names[static_cast<std::size_t>(right)]});
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", pre_tokenizer_json(pattern)},
                     {"post_processor", nullptr},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return json.dump(2) + "\n";
}

}  // namespace moh
