#include "train/config/old_keys.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace moh::config {

namespace {

struct OldKey {
  std::string_view old, now;
};

constexpr OldKey kOldKeys[] = {
    {"model.moh.shared", "model.moh.num_shared"},
    {"model.moh.routed", "model.moh.top_k"},
    {"init.moh.router", "model.moh.router"},
    {"init.moh.shared", "model.moh.num_shared"},
    {"init.moh.routed_top_k", "model.moh.top_k"},
    {"init.moh.shared_heads", "model.moh.shared_heads"},
    {"init.moh.straight_through", "model.moh.straight_through"},
};

/// "model" and "moh.routed" of "model.moh.routed".
std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return {key, {}};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::vector<Entry>::iterator find(Value& map, std::string_view name) {
  return std::ranges::find(map.entries, name, &Entry::key);
}

/// Takes the entry of a key out of a map, and sections that it leaves empty.
std::optional<Entry> take(Value& map, std::string_view key) {
  const auto [first, rest] = split(key);
  const auto entry = find(map, first);
  if (entry == map.entries.end()) return std::nullopt;
  std::optional<Entry> taken;
  if (rest.empty()) {
    taken = std::move(*entry);
    map.entries.erase(entry);
  } else {
    taken = take(entry->value, rest);
    if (taken && entry->value.entries.empty()) map.entries.erase(entry);
  }
  return taken;
}

/// Puts an entry where `key` says, unless something stands there or on the way. Returns whether it did.
bool put(Value& map, std::string_view key, Entry entry) {
  const auto [first, rest] = split(key);
  if (map.kind != Value::Kind::kMap) return false;
  auto at = find(map, first);
  if (rest.empty()) {
    if (at != map.entries.end()) return false;
    entry.key = first;
    map.entries.push_back(std::move(entry));
    return true;
  }
  if (at == map.entries.end()) {
    Value section{.kind = Value::Kind::kMap, .mark = entry.mark};
    map.entries.push_back({std::string(first), entry.mark, std::move(section)});
    at = std::prev(map.entries.end());
  }
  return put(at->value, rest, std::move(entry));
}

}  // namespace

void move_old_keys(Value& layer, std::vector<std::string>& notes) {
  for (const auto& [old, now] : kOldKeys) {
    std::optional<Entry> entry = take(layer, old);
    if (!entry) continue;
    const std::string where =
        entry->mark.text() + ": " + std::string(old) + ": is now called " + std::string(now);
    notes.push_back(put(layer, now, std::move(*entry)) ? where : where + ", which is given, too, and holds");
  }
}

}  // namespace moh::config
