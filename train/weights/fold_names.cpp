#include "train/weights/fold_names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "train/io/printable.h"

namespace moh {

namespace {

/// A number between dots, short enough to be an index.
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

/// Names that are alike but for their indices.
class Group {
 public:
  void add(const std::vector<std::string>& parts) {
    if (count_++ == 0) parts_ = parts;
    ranges_.resize(parts.size(), {INT64_MAX, -1});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!is_index(parts[i])) continue;
      const std::int64_t index = std::stoll(parts[i]);
      ranges_[i] = {std::min(ranges_[i].first, index), std::max(ranges_[i].second, index)};
    }
  }

  std::size_t count() const { return count_; }

  std::string name() const {
    std::string text;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto [low, high] = ranges_[i];
      text += i == 0 ? "" : ".";
      text += low < high ? "{" + std::to_string(low) + "-" + std::to_string(high) + "}" : parts_[i];
    }
    return printable(text, 400);
  }

 private:
  std::vector<std::string> parts_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::size_t count_ = 0;
};

/// Groups under keys, in the order of their first members.
class Groups {
 public:
  /// Returns whether the name begins a group.
  bool add(const std::string& name, const std::string& kind) {
    const std::vector<std::string> parts = parts_of(name);
    std::string key = kind;
    for (const std::string& part : parts) key += is_index(part) ? ".#" : "." + part;
    const auto [place, is_new] = by_key_.emplace(key, groups_.size());
    if (is_new) groups_.emplace_back();
    groups_[place->second].add(parts);
    return is_new;
  }

  std::span<const Group> all() const { return groups_; }

 private:
  std::map<std::string, std::size_t> by_key_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<FoldedTensors> fold_tensors(std::span<const WeightInfo> tensors) {
  Groups groups;
  std::vector<FoldedTensors> folded;
  for (const WeightInfo& tensor : tensors) {
    const std::string kind = std::string(tensor.stored_dtype) + to_string(tensor.shape);
    if (groups.add(tensor.name, kind)) folded.push_back({"", &tensor, 0});
  }
  for (std::size_t i = 0; i < folded.size(); ++i) {
    folded[i].name = groups.all()[i].name();
    folded[i].count = groups.all()[i].count();
  }
  return folded;
}

std::vector<std::string> fold_lines(std::span<const std::string> lines) {
  Groups groups;
  std::vector<std::string> rests;
  for (const std::string& line : lines) {
    const std::size_t colon = std::min(line.find(": "), line.size());
    const std::string rest = line.substr(colon);
    if (groups.add(line.substr(0, colon), rest)) rests.push_back(rest);
  }
  std::vector<std::string> folded;
  for (std::size_t i = 0; i < rests.size(); ++i) {
    const Group& group = groups.all()[i];
    folded.push_back(group.name() + (group.count() == 1 ? "" : " (" + std::to_string(group.count()) + ")") +
                     printable(rests[i], 400));
  }
  return folded;
}

}  // namespace moh
