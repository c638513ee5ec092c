#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/families/translation/decode/translate_text.h"

namespace moh {

/// A line of text and its translations, the best first; none for a line without text.
struct TranslatedLine {
  std::int64_t number = 0;  ///< from 1 on
  const std::string& source;
  std::span<const TranslatedText> translations;
};

/// The best translation and a line end.
std::string text_line(const TranslatedLine& line);
/// Moses' list of n best: a line "NUMBER ||| TEXT ||| SCORE" for each translation, numbers from 0 on.
std::string n_best_lines(const TranslatedLine& line);
/// One JSON object and a line end: line, source, and translations (a list of text, ids, log_probability
/// and score).
std::string json_line(const TranslatedLine& line);

}  // namespace moh
