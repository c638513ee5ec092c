#include "train/config/suggest.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "train/config/fields.h"

namespace moh::config {

namespace {

/// The first candidate of the smallest distance, or "" when all are further away than `limit`.
std::string closest(std::string_view word, const std::vector<std::string>& candidates, std::size_t limit) {
  constexpr std::size_t kLongestWord = 64;  // nobody mistypes a longer one into a key
  if (word.size() > kLongestWord) return "";
  const auto distance = [&](const std::string& candidate) { return edit_distance(word, candidate); };
  const auto nearest = std::ranges::min_element(candidates, {}, distance);
  return nearest == candidates.end() || distance(*nearest) > limit ? "" : *nearest;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: distances between prefixes of a, of the current and the last two lengths, and
  // b's.
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  return closest(word, candidates, std::clamp<std::size_t>(last_name(word).size() / 3, 1, 3));
}

std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates) {
  std::vector<std::string> elsewhere;
  std::ranges::copy_if(candidates, std::back_inserter(elsewhere),
                       [&](const std::string& candidate) { return last_name(candidate) == last_name(key); });
  const std::string nearest = closest(key, elsewhere, std::numeric_limits<std::size_t>::max());
  return nearest.empty() ? nearest_name(key, candidates) : nearest;
}

}  // namespace moh::config
