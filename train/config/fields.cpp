#include "train/config/fields.h"

#include <algorithm>
#include <cmath>

#include "train/config/number_text.h"

namespace moh::config {

Section& Section::section_named(std::string_view name) {
  const auto found = std::ranges::find(sections_, name, &Section::name_);
  return found == sections_.end() ? sections_.emplace_back(name, "") : *found;
}

namespace {

void add_keys(const Section& section, const std::string& prefix, std::vector<std::string>& keys) {
  for (const Field& field : section.fields()) keys.push_back(join_key(prefix, field.name));
  for (const Section& child : section.sections()) {
    const std::string key = join_key(prefix, child.name());
    keys.push_back(key);
    add_keys(child, key, keys);
  }
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

template <class Names>
std::string one_of(const Names& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return names.size() == 1 ? text : "one of " + text;
}

/// The names, each with its other spellings: "one of float32 (or fp32, f32), bfloat16 (or bf16)".
std::string one_of(const EnumRef& ref) {
  std::vector<std::string> names;
  for (std::string_view name : ref.names) {
    std::string others;
    for (const NameAlias& other : ref.aliases) {
      if (other.name == name) others.append(others.empty() ? " (or " : ", ").append(other.alias);
    }
    names.push_back(std::string(name) + others + (others.empty() ? "" : ")"));
  }
  return one_of(names);
}

struct ExpectedText {
  const Bounds& bounds;

  std::string operator()(bool*) const { return "true or false"; }
  std::string operator()(std::int64_t*) const { return "an integer" + bounds_text(bounds); }
  std::string operator()(double*) const { return "a number" + bounds_text(bounds); }
  std::string operator()(std::string*) const { return "a text"; }
  std::string operator()(std::filesystem::path*) const { return "a path"; }
  std::string operator()(Device*) const { return "a device (cpu, cuda or cuda:N)"; }
  std::string operator()(const EnumRef& ref) const { return one_of(ref); }
  std::string operator()(const NameRef& ref) const { return one_of(ref.names); }
  std::string operator()(std::array<double, 2>*) const { return "a list of 2 numbers" + bounds_text(bounds); }
  std::string operator()(std::vector<std::filesystem::path>*) const { return "a path or a list of paths"; }
  std::string operator()(PerLayer*) const {
    return "an integer" + bounds_text(bounds) + ", or a list of such integers, one per layer";
  }
  std::string operator()(const HeadSetRef& ref) const {
    std::string text;
    for (std::string_view rule : ref.rules) text.append(rule).append(", ");
    return text + "a list of heads, or a list of such lists, one per layer";
  }
};

struct ExpectedElementText {
  const Bounds& bounds;

  std::string operator()(std::array<double, 2>*) const { return "a number" + bounds_text(bounds); }
  std::string operator()(std::vector<std::filesystem::path>*) const { return "a path"; }
  std::string operator()(PerLayer*) const { return "an integer" + bounds_text(bounds); }
  std::string operator()(const HeadSetRef&) const { return "an integer" + bounds_text(bounds); }
  template <class T>
  std::string operator()(const T& scalar) const {
    return ExpectedText{bounds}(scalar);
  }
};

}  // namespace

bool Bounds::contains(double value) const {
  return (includes_low ? value >= low : value > low) && (includes_high ? value <= high : value < high) &&
         value <= cap;
}

std::string join_key(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : std::string(prefix) + "." + std::string(name);
}

std::vector<std::string> all_keys(const Section& root) {
  std::vector<std::string> keys;
  add_keys(root, "", keys);
  return keys;
}

std::string expected_text(const Field& field) {
  return std::visit(ExpectedText{field.bounds}, field.target);
}

std::string expected_element_text(const Field& field) {
  return std::visit(ExpectedElementText{field.bounds}, field.target);
}

}  // namespace moh::config
