#include "train/base/jinja/jinja_calls.h"

#include <algorithm>

namespace moh {

namespace {

void spend(std::int64_t& left, std::size_t count, const char* what) {
  if (count > static_cast<std::size_t>(left))
    throw JinjaFault(std::string("expected a rendering within the limit of ") + what + ", found more");
  left -= static_cast<std::int64_t>(count);
}

}  // namespace

void JinjaBudget::step(std::size_t count) {
  spend(steps_, count, "steps");
}

void JinjaBudget::bytes(std::size_t count) {
  spend(bytes_, count, "memory");
}

void JinjaCall::expect(std::initializer_list<std::string_view> parameters) const {
  if (arguments_.values.size() > parameters.size())
    throw JinjaFault(name_ + ": expected at most " + std::to_string(parameters.size()) +
                     " arguments, found " + std::to_string(arguments_.values.size()));
  for (const auto& [name, value] : arguments_.named) {
    if (std::ranges::find(parameters, name) == parameters.end())
      throw JinjaFault(name_ + ": expected no argument of the name '" + name + "'");
  }
}

const JinjaValue* JinjaCall::argument(std::size_t position, std::string_view parameter) const {
  if (position < arguments_.values.size()) return &arguments_.values[position];
  const auto named =
      std::ranges::find_if(arguments_.named, [&](const auto& given) { return given.first == parameter; });
  return named == arguments_.named.end() ? nullptr : &named->second;
}

const JinjaValue& JinjaCall::required(std::size_t position, std::string_view parameter) const {
  const JinjaValue* const value = argument(position, parameter);
  if (value == nullptr)
    throw JinjaFault(name_ + ": expected argument " + std::to_string(position + 1) + ", found none");
  return *value;
}

const MarkedText& JinjaCall::text(std::size_t position, std::string_view parameter) const {
  const JinjaValue& value = required(position, parameter);
  if (!value.is_text()) fail("a text as argument " + std::to_string(position + 1), value);
  return value.text();
}

std::int64_t JinjaCall::whole(std::size_t position, std::string_view parameter,
                              std::int64_t otherwise) const {
  const JinjaValue* const value = argument(position, parameter);
  if (value == nullptr) return otherwise;
  if (!value->is_whole()) fail("an integer as argument " + std::to_string(position + 1), *value);
  return value->whole();
}

const MarkedText& JinjaCall::subject_text() const {
  if (!subject_.is_text()) fail("a text", subject_);
  return subject_.text();
}

JinjaValue JinjaCall::made(MarkedText text) const {
  budget_.bytes(2 * text.size());
  return JinjaValue::text(std::move(text));
}

JinjaValue JinjaCall::made(JinjaList list) const {
  budget_.items(list.size());
  return JinjaValue::list(std::move(list));
}

void JinjaCall::fail(std::string_view expected, const JinjaValue& found) const {
  throw JinjaFault(name_ + ": expected " + std::string(expected) + ", found " + found.kind());
}

}  // namespace moh
