#include "train/config/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "train/config/number_text.h"

namespace moh::config {

namespace {

void add_keys(const Section& section, const std::string& prefix, std::vector<std::string>& keys) {
  for (const Field& field : section.fields()) keys.push_back(join_key(prefix, field.name));
  for (const Section& child : section.sections()) {
    const std::string key = join_key(prefix, child.name());
    keys.push_back(key);
    add_keys(child, key, keys);
  }
}

/// `properties`: those of the section within the sections that it is part of.
void add_fields(const Section& section, const std::string& prefix, const FieldProperties& properties,
                std::vector<KeyedField>& fields) {
  for (const Field& field : section.fields())
    fields.push_back({join_key(prefix, field.name), &field, field.properties.within(properties)});
  for (const Section& child : section.sections())
    add_fields(child, join_key(prefix, child.name()), child.properties().within(properties), fields);
}

std::string bounds_text(const Bounds& bounds) {
  const bool has_low = std::isfinite(bounds.low), has_high = std::isfinite(bounds.high);
  const std::string low = number_text(bounds.low), high = number_text(bounds.high);
  std::string text;
  if (has_low) text += (bounds.includes_low ? " of at least " : " above ") + low;
  if (has_low && has_high) text += " and";
  if (has_high) text += (bounds.includes_high ? " at most " : " below ") + high;
  if (!bounds.unit.empty()) text.append(" (").append(bounds.unit).append(")");
  return text;
}

/// The names with their aliases: "one of float32 (or fp32, f32), bfloat16 (or bf16)".
std::string one_of(const Choice& choice) {
  std::string text = choice.names.size() == 1 ? "" : "one of ";
  for (const std::string& name : choice.names) {
    text += (&name == &choice.names.front() ? "" : ", ") + name;
    std::string others;
    for (const NameAlias& other : choice.aliases) {
      if (other.name == name) others.append(others.empty() ? " (or " : ", ").append(other.alias);
    }
    if (!others.empty()) text += others + ")";
  }
  return text;
}

struct ExpectedText {
  const Bounds& bounds;

  std::string operator()(bool*) const { return "true or false"; }
  std::string operator()(std::int64_t*) const { return "an integer" + bounds_text(bounds); }
  std::string operator()(double*) const { return "a number" + bounds_text(bounds); }
  std::string operator()(std::string*) const { return "a text"; }
  std::string operator()(std::filesystem::path*) const { return "a path"; }
  std::string operator()(Device*) const { return "a device (cpu, cuda or cuda:N)"; }
  std::string operator()(const Choice& choice) const { return one_of(choice); }
  template <std::size_t N>
  std::string operator()(std::array<double, N>*) const {
    return "a list of " + std::to_string(N) + " numbers" + bounds_text(bounds);
  }
  std::string operator()(std::vector<std::int64_t>*) const {
    return "a list of integers" + bounds_text(bounds);
  }
  std::string operator()(std::vector<std::filesystem::path>*) const { return "a path or a list of paths"; }
  std::string operator()(std::vector<DataSource>*) const {
    return "a path, a list of paths, or a list of sources {name, path, weight}";
  }
  std::string operator()(PerLayer*) const {
    const std::string_view share = bounds.unit == "heads" ? ", a share of a layer's heads such as 25%," : "";
    return "an integer" + bounds_text(bounds) + std::string(share) +
           " or a list of such integers, one per layer";
  }
  std::string operator()(std::optional<double>*) const { return "a number" + bounds_text(bounds); }
  std::string operator()(std::vector<std::string>*) const { return "a text or a list of texts"; }
  std::string operator()(const StructList& list) const {
    std::string text = "a list of maps with the keys ";
    const Section section = list.defaults();
    for (const Field& field : section.fields())
      text.append(&field == &section.fields().front() ? "" : ", ").append(field.name);
    return text;
  }
  std::string operator()(HeadSet*) const {
    std::string text;
    for (std::string_view rule : names_of(HeadRule())) text.append(rule).append(", ");
    return text + "a list of heads, or a list of such lists, one per layer";
  }
};

}  // namespace

bool Bounds::contains(double value) const {
  return (includes_low ? value >= low : value > low) && (includes_high ? value <= high : value < high) &&
         value <= cap;
}

Field& Section::add(std::string_view name, Target target, Bounds bounds, std::string_view doc) {
  return fields_.emplace_back(Field{name, std::move(target), bounds, std::string(doc)});
}

FieldProperties& Section::properties_of(std::string_view name) {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  MOH_CHECK(found != fields_.end(), "properties_of: a field of the section");
  return found->properties;
}

Section& Section::section_named(std::string_view name, std::string_view doc) {
  const auto found = std::ranges::find(sections_, name, &Section::name_);
  return found == sections_.end() ? sections_.emplace_back(name, doc) : *found;
}

std::string join_key(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : std::string(prefix) + "." + std::string(name);
}

std::string_view last_name(std::string_view key) {
  return key.substr(key.rfind('.') + 1);  // npos + 1 == 0: the whole key
}

std::vector<std::string> all_keys(const Section& root) {
  std::vector<std::string> keys;
  add_keys(root, "", keys);
  return keys;
}

std::vector<KeyedField> all_fields(const Section& section) {
  std::vector<KeyedField> fields;
  add_fields(section, std::string(section.name()), section.properties(), fields);
  return fields;
}

std::string expected_text(const Field& field) {
  if (!field.words.empty()) {
    std::string text;
    for (const std::string_view word : field.words) text.append(word).append(", ");
    return text + "or a path";
  }
  return std::visit(ExpectedText{field.bounds}, field.target);
}

std::string expected_element_text(const Field& field) {
  if (std::holds_alternative<std::vector<std::filesystem::path>*>(field.target)) return "a path";
  if (std::holds_alternative<std::vector<std::string>*>(field.target)) return "a text";
  if (std::holds_alternative<StructList>(field.target)) return "a map";
  if (const auto* choice = std::get_if<Choice>(&field.target)) return one_of({.names = choice->parts});
  if (std::holds_alternative<std::vector<DataSource>*>(field.target)) return "a source {name, path, weight}";
  const bool real = std::holds_alternative<std::array<double, 2>*>(field.target) ||
                    std::holds_alternative<std::array<double, 3>*>(field.target);
  return (real ? "a number" : "an integer") + bounds_text(field.bounds);
}

}  // namespace moh::config
