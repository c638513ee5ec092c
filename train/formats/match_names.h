#pragma once

#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace moh {

/// Two lists of things with a `name`, say the tensors that a model expects and those that a file has, matched
/// by it.
template <class Expected, class Found>
struct NameMatch {
  /// Every expected one, in their order, with what was found under its name; null where nothing was.
  std::vector<std::pair<const Expected*, const Found*>> expected;
  /// What was found and not expected, in its order.
  std::vector<const Found*> unexpected;
};

/// The lists outlive the result. A name that is found twice stands for the first.
template <class ExpectedList, class FoundList>
auto match_names(const ExpectedList& expected, const FoundList& found) {
  using Expected = std::remove_cvref_t<decltype(*expected.begin())>;
  using Found = std::remove_cvref_t<decltype(*found.begin())>;
  NameMatch<Expected, Found> match;
  std::unordered_map<std::string_view, const Found*> by_name;
  for (const Found& each : found) by_name.emplace(each.name, &each);
  std::unordered_set<std::string_view> wanted;
  for (const Expected& each : expected) {
    const auto same = by_name.find(each.name);
    match.expected.emplace_back(&each, same == by_name.end() ? nullptr : same->second);
    wanted.insert(each.name);
  }
  for (const Found& each : found) {
    if (!wanted.contains(each.name)) match.unexpected.push_back(&each);
  }
  return match;
}

}  // namespace moh
