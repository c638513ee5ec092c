#include "train/weights/fold_names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Whether a part between dots is a number that is short enough to be an index.
bool is_index(std::string_view part) {
  return !part.empty() && part.size() < 10 &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    parts.push_back(name.substr(begin, dot - begin));
  }
  parts.push_back(name.substr(begin));
  return parts;
}

struct NameAndKind {
  std::string name;
  std::string kind;  ///< only names of the same kind form a group
};

/// Joins the parts by dots, with a range of indices in place of a varying index.
std::string with_ranges(const std::vector<std::string>& parts,
                        const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [low, high] = ranges[i];
    text += i == 0 ? "" : ".";
    text += low < high ? "{" + std::to_string(low) + "-" + std::to_string(high) + "}" : parts[i];
  }
  return printable(text, 400);
}

std::vector<FoldedNames> fold(std::span<const NameAndKind> things) {
  std::map<std::string, std::size_t> by_key;
  std::vector<FoldedNames> folded;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;  // by group and part
  for (std::size_t i = 0; i < things.size(); ++i) {
    const std::vector<std::string> parts = parts_of(things[i].name);
    std::string key = things[i].kind;
    for (const std::string& part : parts) key += is_index(part) ? ".#" : "." + part;
    const auto [group, is_new] = by_key.emplace(key, folded.size());
    if (is_new) {
      folded.push_back({"", i, 0});
      ranges.emplace_back(parts.size(), std::pair(INT64_MAX, -1));
    }
    ++folded[group->second].count;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (!is_index(parts[part])) continue;
      const std::int64_t index = std::stoll(parts[part]);
      auto& [low, high] = ranges[group->second][part];
      low = std::min(low, index);
      high = std::max(high, index);
    }
  }
  for (std::size_t i = 0; i < folded.size(); ++i)
    folded[i].name = with_ranges(parts_of(things[folded[i].first].name), ranges[i]);
  return folded;
}

}  // namespace

std::vector<FoldedNames> fold_tensors(std::span<const WeightInfo> tensors) {
  std::vector<NameAndKind> things;
  for (const WeightInfo& tensor : tensors)
    things.push_back({tensor.name, std::string(tensor.stored_dtype) + to_string(tensor.shape)});
  return fold(things);
}

std::vector<std::string> fold_lines(std::span<const std::string> lines) {
  std::vector<NameAndKind> things;
  for (const std::string& line : lines) {
    const std::size_t colon = std::min(line.find(": "), line.size());
    things.push_back({line.substr(0, colon), line.substr(colon)});
  }
  std::vector<std::string> folded;
  const std::vector<FoldedNames> groups = fold(things);
  for (const auto& [name, first, count] : groups) {
    if (folded.size() == kMostFoldedLines) {
      folded.push_back("... and " + std::to_string(groups.size() - kMostFoldedLines) + " more");
      break;
    }
    folded.push_back(name + (count == 1 ? "" : " (" + std::to_string(count) + ")") +
                     printable(things[first].kind, 400));
  }
  return folded;
}

}  // namespace moh
