#include "train/weights/hf/config_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/config/number_text.h"

namespace moh {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr int kMaxConfigDepth = 16;

/// nullptr for a key that is absent or whose value is null.
const json* find_member(const json& members, std::string_view key) {
  const auto found = members.find(key);
  return found == members.end() || found->is_null() ? nullptr : &*found;
}

/// The value of a required key, of the type for which `is` returns true; `is` null: of any type.
const json& get(const ConfigJson& owner, const json& members, std::string_view key, std::string_view expected,
                bool (json::*is)() const noexcept = nullptr) {
  const json* found = find_member(members, key);
  if (found == nullptr) owner.damaged(key, expected, "nothing");
  if (is != nullptr && !(found->*is)()) owner.damaged(key, expected, printable(found->dump()));
  return *found;
}

std::int64_t integer_of(const ConfigJson& owner, const json& value, std::string_view key, double low,
                        double high) {
  // Compared as doubles, which is exact below 2^53; a number above 2^63 is a double or unsigned here.
  if (!value.is_number_integer() || value.get<double>() < low || value.get<double>() > high) {
    owner.damaged(key, "a whole number from " + config::number_text(low) + " to " + config::number_text(high),
                  printable(value.dump()));
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> integers_of(const ConfigJson& owner, const json& list, std::string_view key,
                                      double low, double high) {
  std::vector<std::int64_t> values;
  for (const json& item : list) values.push_back(integer_of(owner, item, key, low, high));
  return values;
}

}  // namespace

struct ConfigJson::Object {
  json members;
};

ConfigJson::ConfigJson(const std::filesystem::path& path)
    : path_(path),
      object_(std::make_shared<Object>(
          Object{json::parse(read_json_object(path, InputKind::kCheckpoint, kMaxBytes, kMaxConfigDepth))})) {}

std::vector<std::string> ConfigJson::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : object_->members.items()) {
    if (!item.value().is_null()) keys.push_back(item.key());
  }
  return keys;
}

bool ConfigJson::has(std::string_view key) const {
  return find_member(object_->members, key) != nullptr;
}

bool ConfigJson::is_null(std::string_view key) const {
  return object_->members.contains(key) && !has(key);
}

bool ConfigJson::is_list(std::string_view key) const {
  const json* found = find_member(object_->members, key);
  return found != nullptr && found->is_array();
}

std::int64_t ConfigJson::integer(std::string_view key, double low, double high) const {
  return integer_of(*this, get(*this, object_->members, key, "a whole number"), key, low, high);
}

double ConfigJson::number(std::string_view key) const {
  return get(*this, object_->members, key, "a number", &json::is_number).get<double>();
}

double ConfigJson::positive(std::string_view key) const {
  const double value = number(key);
  if (!(value > 0)) damaged(key, "a number above 0", shown(key));
  return value;
}

bool ConfigJson::truth(std::string_view key) const {
  return get(*this, object_->members, key, "true or false", &json::is_boolean).get<bool>();
}

std::string ConfigJson::text(std::string_view key) const {
  return get(*this, object_->members, key, "a text", &json::is_string).get<std::string>();
}

std::vector<std::string> ConfigJson::texts(std::string_view key) const {
  const json& found = get(*this, object_->members, key, "a list of texts", &json::is_array);
  std::vector<std::string> texts;
  for (const json& item : found) {
    if (!item.is_string()) damaged(key, "a list of texts", printable(found.dump()));
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<double> ConfigJson::numbers(std::string_view key) const {
  const json& found = get(*this, object_->members, key, "a list of numbers", &json::is_array);
  std::vector<double> numbers;
  for (const json& item : found) {
    if (!item.is_number()) damaged(key, "a list of numbers", printable(found.dump()));
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

std::vector<std::int64_t> ConfigJson::integers(std::string_view key, double low, double high) const {
  return integers_of(*this, get(*this, object_->members, key, "a list of whole numbers", &json::is_array),
                     key, low, high);
}

std::vector<std::vector<std::int64_t>> ConfigJson::lists_of_integers(std::string_view key, double low,
                                                                     double high) const {
  const json& found = get(*this, object_->members, key, "a list of lists", &json::is_array);
  std::vector<std::vector<std::int64_t>> lists;
  for (const json& list : found) {
    if (!list.is_array()) damaged(key, "a list of lists", printable(found.dump()));
    lists.push_back(integers_of(*this, list, key, low, high));
  }
  return lists;
}

std::string ConfigJson::object_text(std::string_view key) const {
  return get(*this, object_->members, key, "an object", &json::is_object).dump();
}

ConfigJson ConfigJson::object(std::string_view key) const {
  const json& found = get(*this, object_->members, key, "an object", &json::is_object);
  return {path_, prefix_ + std::string(key) + ".", std::make_shared<Object>(Object{found})};
}

std::string ConfigJson::shown(std::string_view key) const {
  const json* found = find_member(object_->members, key);
  return found == nullptr ? "nothing" : printable(found->dump());
}

void ConfigJson::damaged(std::string_view key, std::string_view expected, std::string_view found) const {
  throw CheckpointError(error_message(path_.string(), prefix_ + printable(key), expected, found));
}

void ConfigJson::unsupported(std::string_view key, std::string_view expected, std::string_view found,
                             std::string_view fix) const {
  throw ConfigError(error_message(path_.string(), prefix_ + printable(key), expected, found, fix));
}

}  // namespace moh
