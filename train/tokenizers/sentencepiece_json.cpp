#include "train/tokenizers/sentencepiece_json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "train/tokenizers/pattern.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson sequence(const char* list, std::vector<OrderedJson> steps) {
  if (steps.empty()) return {};
  if (steps.size() == 1) return std::move(steps.front());
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

OrderedJson replace(const char* kind, const std::string& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

}  // namespace

/// The steps of SentencePieceNormalizer: rules; extra spaces, at the beginning, at the end, and within; the
/// space before a text; and spaces as U+2581.
std::string normalizer_json(const SentencePieceModel& model) {
  std::vector<OrderedJson> steps;
  const auto add = [&](OrderedJson step) { steps.push_back(std::move(step)); };
  const char* const space = model.escapes_spaces ? "\u2581" : " ";
  if (!model.rules.empty()) add({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.rules)}});
  if (model.removes_extra_spaces) {
    // The space put before a text makes one space with those that the text begins with.
    if (model.adds_prefix) add({{"type", "Prepend"}, {"prepend", " "}});
    if (!model.adds_prefix) add(replace("Regex", "(?<!\\s|\\S) +", ""));
    add(replace("Regex", " +", " "));
    if (model.escapes_spaces) add(replace("String", " ", space));
    add(replace("Regex", std::string(space) + "+(?!\\s|\\S)", ""));
  } else {
    if (model.adds_prefix) add({{"type", "Prepend"}, {"prepend", space}});
    if (model.escapes_spaces) add(replace("String", " ", space));
  }
  return sequence("normalizers", std::move(steps)).dump();
}

/// User-defined pieces are words, the longest that begins at a place. Nothing, but a token's bytes, is
/// written <0x41>: such text is cut.
std::string pre_tokenizer_json(const SentencePieceModel& model) {
  std::vector<std::string_view> defined;
  bool has_bytes = false;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type == PieceType::kUserDefined && !model.is_unigram) defined.push_back(piece.text);
    has_bytes = has_bytes || piece.type == PieceType::kByte;
  }
  const auto split = [](const std::string& expression, const char* behavior) -> OrderedJson {
    return {
        {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", behavior}, {"invert", false}};
  };
  std::vector<OrderedJson> steps;
  if (!defined.empty()) {
    std::ranges::stable_sort(defined, std::ranges::greater(), &std::string_view::size);
    std::string expression;
    for (const std::string_view text : defined)
      expression += (expression.empty() ? "" : "|") + quoted_pattern(text);
    steps.push_back(split(expression, "Isolated"));
  }
  if (has_bytes && (model.is_unigram || !defined.empty()))
    steps.push_back(split("<(?=0x[0-9A-F][0-9A-F]>)", "MergedWithPrevious"));
  return sequence("pretokenizers", std::move(steps)).dump();
}

std::string decoder_json(const SentencePieceModel& model) {
  std::vector<OrderedJson> steps = {replace("String", "\u2581", " ")};
  if (model.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.adds_prefix || model.removes_extra_spaces)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(steps)).dump();
}

}  // namespace moh
