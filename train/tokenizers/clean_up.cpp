#include "train/tokenizers/clean_up.h"

#include <string_view>
#include <utility>

namespace moh {

namespace {

/// Replacements, one after the other.
constexpr std::pair<std::string_view, std::string_view> kCleanUp[] = {
    {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

std::string without_outer_spaces(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? std::string()
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

std::string clean_up_tokenization(const std::string& text) {
  std::string clean = without_outer_spaces(text);
  for (const auto& [from, to] : kCleanUp)
    for (std::size_t at = clean.find(from); at != std::string::npos; at = clean.find(from, at + to.size()))
      clean.replace(at, from.size(), to);
  return clean;
}

}  // namespace moh
