#include "train/base/jinja/jinja_value.h"

#include <algorithm>

namespace moh {

namespace {

int checked_depth(int depth) {
  if (depth > JinjaValue::kMaxDepth)
    throw JinjaFault("expected lists and objects nested at most " + std::to_string(JinjaValue::kMaxDepth) +
                     " deep, found more");
  return depth;
}

}  // namespace

JinjaValue JinjaValue::text(MarkedText value) {
  return JinjaValue(TextPointer(std::make_shared<const MarkedText>(std::move(value))));
}

JinjaValue JinjaValue::list(JinjaList items) {
  int depth = 0;
  for (const JinjaValue& item : items) depth = std::max(depth, item.depth());
  depth = checked_depth(depth + 1);
  return JinjaValue(Nest<JinjaList>{std::make_shared<const JinjaList>(std::move(items)), depth});
}

JinjaValue JinjaValue::object(JinjaObject entries) {
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max(depth, value.depth());
  depth = checked_depth(depth + 1);
  return JinjaValue(Nest<JinjaObject>{std::make_shared<const JinjaObject>(std::move(entries)), depth});
}

int JinjaValue::depth() const {
  if (const auto* const list = std::get_if<Nest<JinjaList>>(&value_)) return list->depth;
  const auto* const object = std::get_if<Nest<JinjaObject>>(&value_);
  return object == nullptr ? 0 : object->depth;
}

std::int64_t JinjaValue::whole() const {
  return is_boolean() ? static_cast<std::int64_t>(std::get<bool>(value_)) : std::get<std::int64_t>(value_);
}

double JinjaValue::real() const {
  return is_float() ? std::get<double>(value_) : static_cast<double>(whole());
}

bool JinjaValue::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return real() != 0;
  if (is_text()) return !text().empty();
  if (is_list()) return !list().empty();
  return !is_object() || !object().empty();
}

const JinjaValue* JinjaValue::find(std::string_view key) const {
  for (const auto& [name, value] : object()) {
    if (name.bytes() == key) return &value;
  }
  return nullptr;
}

std::string JinjaValue::kind() const {
  if (is_undefined())
    return missing_name().empty() ? "a value that is not there"
                                  : "'" + missing_name() + "', which is undefined";
  if (is_none()) return "none";
  if (is_boolean()) return "a boolean";
  if (is_integer()) return "an integer";
  if (is_float()) return "a float";
  if (is_text()) return "a text";
  if (is_list()) return "a list";
  if (is_object()) return "an object";
  if (as_namespace() != nullptr) return "a namespace";
  return as_loop() != nullptr ? "a loop" : "a function";
}

}  // namespace moh
