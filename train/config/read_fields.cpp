#include "train/config/read_fields.h"

#include <algorithm>

#include "train/config/read_value.h"
#include "train/config/suggest.h"

namespace moh::config {

namespace {

class FieldsReader {
 public:
  FieldsReader(const Section& root, GivenKeys& given, Problems& problems)
      : root_(root), given_(given), problems_(problems) {}

  void read(const Section& section, const Value& map, const std::string& prefix) {
    for (const Entry& entry : map.entries) {
      const std::string key = join_key(prefix, entry.key);
      const auto field = std::ranges::find(section.fields(), entry.key, &Field::name);
      const auto child = std::ranges::find(section.sections(), entry.key, &Section::name);
      if (field != section.fields().end()) {
        read_field(*field, entry.value, key);
      } else if (child != section.sections().end()) {
        read_section(*child, entry.value, key);
      } else {
        report_unknown(section, entry, key, prefix);
      }
    }
  }

 private:
  void read_field(const Field& field, const Value& value, const std::string& key) {
    if (read_value(field, value, key, problems_)) {
      given_.places.insert_or_assign(key, value.mark);
    } else {
      given_.refused.insert(key);
    }
  }

  void read_section(const Section& section, const Value& value, const std::string& key) {
    if (value.kind == Value::Kind::kMap) return read(section, value, key);
    given_.refused.insert(key);
    if (value.kind == Value::Kind::kNull) {
      problems_.add(value.mark, key, "keys below it", "nothing", "indent its keys, or remove it");
    } else if (value.kind != Value::Kind::kRefused) {
      problems_.add(value.mark, key, "keys below it", found_text(value));
    }
  }

  void report_unknown(const Section& section, const Entry& entry, const std::string& key,
                      std::string_view prefix) {
    std::string text = shown(key) + ": unknown key";
    if (!problems_.full()) {  // the search is not free, and a hostile file has many
      const std::string nearest = nearest_key(key, all_keys(root_));
      given_.refused.insert(nearest);
      text += nearest.empty() ? "; known keys" + (prefix.empty() ? "" : " of " + std::string(prefix)) + ": " +
                                    names_of_keys(section)
                              : "; did you mean " + nearest + "?";
    }
    problems_.add(entry.mark, text);
  }

  static std::string names_of_keys(const Section& section) {
    std::string names;
    const auto add = [&](std::string_view name) { names.append(names.empty() ? "" : ", ").append(name); };
    for (const Field& field : section.fields()) add(field.name);
    for (const Section& child : section.sections()) add(child.name());
    return names;
  }

  const Section& root_;
  GivenKeys& given_;
  Problems& problems_;
};

}  // namespace

void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems) {
  FieldsReader(root, given, problems).read(root, layer, "");
}

}  // namespace moh::config
