#include "train/apps/eval/translation_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "train/tokenizers/tokenizer.h"

namespace moh {

std::string text_line(const TranslatedLine& line) {
  return (line.translations.empty() ? "" : line.translations.front().text) + "\n";
}

std::string n_best_lines(const TranslatedLine& line) {
  std::string lines;
  for (const TranslatedText& translation : line.translations) {
    char score[32];
    std::snprintf(score, sizeof score, "%.6f", translation.score);
    lines += std::to_string(line.number - 1) + " ||| " + translation.text + " ||| " + score + "\n";
  }
  return lines;
}

std::string json_line(const TranslatedLine& line) {
  using Json = nlohmann::ordered_json;
  Json translations = Json::array();
  for (const auto& [text, ids, log_probability, score] : line.translations)
    translations.push_back(
        {{"text", text}, {"ids", ids}, {"log_probability", log_probability}, {"score", score}});
  const Json object = {{"line", line.number},
                       {"source", with_valid_utf8(line.source)},
                       {"translations", std::move(translations)}};
  return object.dump() + "\n";
}

}  // namespace moh
