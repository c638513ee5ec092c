#include "train/config/suggest.h"

#include <algorithm>
#include <limits>

namespace moh::config {

namespace {

/// Nobody mistypes a longer one into a key; it would only cost time.
constexpr std::size_t kLongestWord = 64;

std::string_view last_name(std::string_view key) {
  return key.substr(key.rfind('.') + 1);  // npos + 1 == 0: the whole key
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
  if (word.size() > kLongestWord) return "";
  std::size_t best = std::clamp<std::size_t>(last_name(word).size() / 3, 1, 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates) {
  if (key.size() > kLongestWord) return "";
  std::size_t best = std::numeric_limits<std::size_t>::max();
  std::string nearest;
  for (const std::string& candidate : candidates) {
    if (last_name(candidate) != last_name(key)) continue;
    const std::size_t distance = edit_distance(key, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? nearest_name(key, candidates) : nearest;
}

}  // namespace moh::config
