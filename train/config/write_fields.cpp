#include "train/config/write_fields.h"

#include <algorithm>
#include <numeric>

#include "train/base/io/printable.h"
#include "train/config/number_text.h"

namespace moh::config {

namespace {

/// Whether the text needs no quotes in YAML. Conservative: false in doubt.
bool is_plain(std::string_view text) {
  constexpr std::string_view kPlain = "0123456789.-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
  constexpr std::string_view kFirst = kPlain.substr(kPlain.find('a'));
  constexpr std::string_view kMeaningful[] = {"null", "Null", "NULL", "true", "false",
                                              "yes",  "no",   "on",   "off"};
  return !text.empty() && kFirst.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(kPlain) == std::string_view::npos &&
         std::ranges::count(kMeaningful, text) == 0;
}

/// The text in double quotes, with escapes where YAML needs them. UTF-8 is not escaped.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_control_character({&c, 1})) {
      out += "\\x" + hex_digits({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string text_yaml(std::string_view text) {
  return is_plain(text) ? std::string(text) : quoted(text);
}

template <class Values, class ToYaml>
std::string list_yaml(const Values& values, ToYaml&& to_yaml) {
  std::string out = "[";
  for (const auto& value : values) out += (out.size() > 1 ? ", " : "") + to_yaml(value);
  return out + "]";
}

std::string integers_yaml(const std::vector<std::int64_t>& values) {
  return list_yaml(values, [](std::int64_t value) { return std::to_string(value); });
}

std::string map_yaml(const Section& fields, const Section& defaults);

struct ValueYaml {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const std::string* value) const { return text_yaml(*value); }
  std::string operator()(const std::filesystem::path* value) const { return text_yaml(value->string()); }
  std::string operator()(const Device* value) const { return device_name(*value); }
  std::string operator()(const Choice& choice) const { return choice.get(); }
  template <std::size_t N>
  std::string operator()(const std::array<double, N>* values) const {
    return list_yaml(*values, number_text);
  }
  std::string operator()(const std::vector<std::int64_t>* values) const { return integers_yaml(*values); }
  std::string operator()(const std::vector<std::filesystem::path>* values) const {
    return list_yaml(*values, [](const std::filesystem::path& path) { return text_yaml(path.string()); });
  }
  std::string operator()(const std::vector<DataSource>* sources) const {
    if (sources->empty()) return "[]";
    if (!is_mixture(*sources)) return (*this)(&sources->front().paths);
    return list_yaml(*sources, [this](const DataSource& source) {
      const std::string weight = source.weight > 0 ? ", weight: " + number_text(source.weight) : "";
      return "{name: " + text_yaml(source.name) + ", path: " + (*this)(&source.paths) + weight + "}";
    });
  }
  std::string operator()(const PerLayer* counts) const {
    return counts->each.empty() ? std::to_string(counts->every) : integers_yaml(counts->each);
  }
  std::string operator()(const HeadSet* heads) const {
    if (!heads->each.empty()) return list_yaml(heads->each, integers_yaml);
    return heads->listed() ? integers_yaml(heads->every)
                           : std::string(names_of(heads->rule)[static_cast<std::size_t>(heads->rule)]);
  }
  std::string operator()(const std::optional<double>* value) const {
    return *value ? number_text(**value) : "";
  }
  std::string operator()(const std::vector<std::string>* values) const {
    return values->size() == 1 ? text_yaml(values->front()) : list_yaml(*values, text_yaml);
  }
  std::string operator()(const StructList& list) const {
    std::vector<std::size_t> numbers(list.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const Section defaults = list.defaults();
    return list_yaml(numbers, [&](std::size_t i) { return map_yaml(list.fields(i), defaults); });
  }
};

/// A map of the fields that differ from their defaults.
std::string map_yaml(const Section& fields, const Section& defaults) {
  std::string out;
  for (std::size_t i = 0; i < fields.fields().size(); ++i) {
    const Field& field = fields.fields()[i];
    const std::string value = value_yaml(field);
    if (value == value_yaml(defaults.fields()[i])) continue;
    out.append(out.empty() ? "" : ", ").append(field.name).append(": ").append(value);
  }
  return "{" + out + "}";
}

void write(const Section& section, const std::string& indent, std::string& out) {
  for (const Field& field : section.fields()) {
    const std::string value = value_yaml(field);
    if (value.empty()) continue;  // an optional number that is not set
    out.append(indent).append(field.name).append(": ").append(value).append("\n");
  }
  for (const Section& child : section.sections()) {
    out.append(indent).append(child.name()).append(":");
    if (child.is_short()) {
      out.append(" ").append(value_yaml(child.fields().front())).append("\n");
      continue;
    }
    out.append("\n");
    write(child, indent + "  ", out);
  }
}

/// Escapes pipes, which would end a table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

/// "an integer of at least 1" without its article.
std::string type_cell(const Field& field) {
  const std::string text = expected_text(field);
  const bool article = text.starts_with("a ") || text.starts_with("an ");
  return cell(article ? text.substr(text.find(' ') + 1) : text);
}

std::string default_cell(const Field& field) {
  const std::string text = value_yaml(field);
  return text.empty() || text == "\"\"" ? "" : "`" + cell(text) + "`";
}

/// Fields of maps in a list follow the list, as `groups[].match`.
void add_rows(const Section& section, const std::string& prefix, std::string& out) {
  for (const Field& field : section.fields()) {
    const std::string name = prefix + std::string(field.name);
    out.append("| `").append(name).append("` | ").append(type_cell(field)).append(" | ");
    out.append(default_cell(field)).append(" | ").append(cell(field.doc)).append(" |\n");
    if (const auto* list = std::get_if<StructList>(&field.target))
      add_rows(list->defaults(), name + "[].", out);
  }
}

void append_fields(const Section& section, std::string& out) {
  if (section.fields().empty()) return;
  out += "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  add_rows(section, "", out);
}

void add_section(const Section& section, const std::string& prefix, std::string& out) {
  const std::string key = join_key(prefix, section.name());
  out.append("\n## ").append(key).append("\n");
  if (!section.doc().empty()) out.append("\n").append(section.doc()).append("\n");
  append_fields(section, out);
  for (const Section& child : section.sections()) add_section(child, key, out);
}

}  // namespace

std::string value_yaml(const Field& field) {
  return std::visit(ValueYaml(), field.target);
}

std::string section_yaml(const Section& root) {
  std::string out;
  write(root, "", out);
  return out;
}

std::vector<Difference> differences(const Section& expected, const Section& found) {
  const std::vector<KeyedField> theirs = all_fields(expected), ours = all_fields(found);
  std::vector<Difference> all;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    Difference d{theirs[i].key, value_yaml(*theirs[i].field), value_yaml(*ours[i].field), "",
                 ours[i].properties};
    if (d.expected != d.found) all.push_back(std::move(d));
  }
  return all;
}

std::vector<Difference> differences(const Section& expected, const Section& found, FieldProperty except) {
  std::vector<Difference> all = differences(expected, found);
  std::erase_if(all, [&](const Difference& d) { return d.properties.has(except); });
  return all;
}

std::string reference_markdown(const Section& root) {
  std::string out;
  if (!root.fields().empty()) out += "\n## Top level\n";
  append_fields(root, out);
  for (const Section& child : root.sections()) add_section(child, "", out);
  return out;
}

}  // namespace moh::config
