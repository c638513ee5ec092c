#include "train/config/old_keys.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "train/config/fields.h"

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

std::vector<Entry>::iterator find(Value& map, std::string_view name) {
  return std::ranges::find(map.entries, name, &Entry::key);
}

/// The section that contains the key; null if there is none. With `mark`, missing sections are created, with
/// that mark.
Value* section_of(Value& layer, std::string_view key, const Mark* mark) {
  Value* section = &layer;
  for (std::size_t dot; (dot = key.find('.')) != std::string_view::npos; key.remove_prefix(dot + 1)) {
    auto entry = find(*section, key.substr(0, dot));
    if (entry == section->entries.end()) {
      if (mark == nullptr || section->kind != Value::Kind::kMap) return nullptr;
      Value made{.kind = Value::Kind::kMap, .mark = *mark};
      section->entries.push_back({std::string(key.substr(0, dot)), *mark, std::move(made)});
      entry = std::prev(section->entries.end());
    }
    section = &entry->value;
  }
  return section->kind == Value::Kind::kMap ? section : nullptr;
}

}  // namespace

void move_old_keys(Value& layer, std::vector<std::string>& notes) {
  for (const auto& [old, now] : kOldKeys) {
    Value* from = section_of(layer, old, nullptr);
    if (from == nullptr) continue;
    const auto found = find(*from, last_name(old));
    if (found == from->entries.end()) continue;
    Entry entry = std::move(*found);
    from->entries.erase(found);
    std::string note =
        entry.mark.text() + ": " + std::string(old) + ": has been renamed to " + std::string(now);
    Value* to = section_of(layer, now, &entry.mark);
    if (to != nullptr && find(*to, last_name(now)) == to->entries.end()) {
      entry.key = last_name(now);
      entry.old_key = old;
      to->entries.push_back(std::move(entry));
    } else {
      note += ", which is given, too, and used";
    }
    notes.push_back(std::move(note));
  }
}

}  // namespace moh::config
