#include "train/config/write_fields.h"

#include "train/config/number_text.h"

namespace moh::config {

namespace {

/// Whether YAML takes the text for what it is without quotes. Narrower than YAML: in doubt, quotes.
bool is_plain(std::string_view text) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
  constexpr std::string_view kOthers = "0123456789.-";
  if (text.empty() || kFirst.find(text[0]) == std::string_view::npos) return false;
  for (char c : text) {
    if (kFirst.find(c) == std::string_view::npos && kOthers.find(c) == std::string_view::npos) return false;
  }
  constexpr std::string_view kMeaningful[] = {"null", "Null", "NULL", "true", "false",
                                              "yes",  "no",   "on",   "off"};
  for (std::string_view word : kMeaningful) {
    if (text == word) return false;
  }
  return true;
}

/// In double quotes, with escapes for what may not stand there as it is. UTF-8 passes through.
std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
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

struct ValueYaml {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const std::string* value) const { return text_yaml(*value); }
  std::string operator()(const std::filesystem::path* value) const { return text_yaml(value->string()); }
  std::string operator()(const Device* value) const { return device_name(*value); }
  std::string operator()(const EnumRef& ref) const { return std::string(ref.names[ref.get()]); }
  std::string operator()(const NameRef& ref) const { return *ref.value; }
  std::string operator()(const std::array<double, 2>* values) const {
    return list_yaml(*values, number_text);
  }
  std::string operator()(const std::vector<std::filesystem::path>* values) const {
    return list_yaml(*values, [](const std::filesystem::path& path) { return text_yaml(path.string()); });
  }
  std::string operator()(const PerLayer* counts) const {
    return counts->each.empty() ? std::to_string(counts->every) : integers_yaml(counts->each);
  }
  std::string operator()(const HeadSetRef& ref) const {
    const HeadSet& heads = *ref.value;
    if (!heads.each.empty()) return list_yaml(heads.each, integers_yaml);
    return heads.listed() ? integers_yaml(heads.every)
                          : std::string(ref.rules[static_cast<std::size_t>(heads.rule)]);
  }
};

void write(const Section& section, const std::string& indent, std::string& out) {
  for (const Field& field : section.fields()) {
    out.append(indent).append(field.name).append(": ").append(value_yaml(field)).append("\n");
  }
  for (const Section& child : section.sections()) {
    out.append(indent).append(child.name()).append(":\n");
    write(child, indent + "  ", out);
  }
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

}  // namespace moh::config
