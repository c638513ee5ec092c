#include "train/weights/hf/config_json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/config/number_text.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"

namespace moh {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 16;

std::int64_t integer_of(const ConfigJson& owner, const json& value, std::string_view key, double low,
                        double high) {
  // Compared as doubles, which loses nothing below 2^53; a number above 2^63 is a double or an unsigned one.
  if (!value.is_number_integer() || value.get<double>() < low || value.get<double>() > high) {
    owner.damaged(key, "a whole number from " + config::number_text(low) + " to " + config::number_text(high),
                  printable(value.dump()));
  }
  return value.get<std::int64_t>();
}

}  // namespace

struct ConfigJson::Object {
  json members;

  /// Null for a key that is absent, or null in the file.
  const json* find(std::string_view key) const {
    const auto found = members.find(key);
    return found == members.end() || found->is_null() ? nullptr : &*found;
  }

  const json& required(const ConfigJson& owner, std::string_view key, std::string_view expected) const {
    const json* found = find(key);
    if (found == nullptr) owner.damaged(key, expected, "nothing");
    return *found;
  }
};

ConfigJson::ConfigJson(const std::filesystem::path& path)
    : path_(path),
      object_(std::make_shared<Object>(
          Object{json::parse(read_json_object(path, InputKind::kCheckpoint, kMaxBytes, kMaxDepth))})) {}

std::vector<std::string> ConfigJson::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : object_->members.items()) {
    if (!item.value().is_null()) keys.push_back(item.key());
  }
  return keys;
}

bool ConfigJson::has(std::string_view key) const {
  return object_->find(key) != nullptr;
}

bool ConfigJson::is_list(std::string_view key) const {
  const json* found = object_->find(key);
  return found != nullptr && found->is_array();
}

std::int64_t ConfigJson::integer(std::string_view key, double low, double high) const {
  return integer_of(*this, object_->required(*this, key, "a whole number"), key, low, high);
}

double ConfigJson::number(std::string_view key) const {
  const json& found = object_->required(*this, key, "a number");
  if (!found.is_number()) damaged(key, "a number", printable(found.dump()));
  return found.get<double>();
}

bool ConfigJson::truth(std::string_view key) const {
  const json& found = object_->required(*this, key, "true or false");
  if (!found.is_boolean()) damaged(key, "true or false", printable(found.dump()));
  return found.get<bool>();
}

std::string ConfigJson::text(std::string_view key) const {
  const json& found = object_->required(*this, key, "a text");
  if (!found.is_string()) damaged(key, "a text", printable(found.dump()));
  return found.get<std::string>();
}

std::vector<std::string> ConfigJson::texts(std::string_view key) const {
  const json& found = object_->required(*this, key, "a list of texts");
  if (!found.is_array()) damaged(key, "a list of texts", printable(found.dump()));
  std::vector<std::string> texts;
  for (const json& item : found) {
    if (!item.is_string()) damaged(key, "a list of texts", printable(found.dump()));
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<std::int64_t> ConfigJson::integers(std::string_view key, double low, double high) const {
  const json& found = object_->required(*this, key, "a list of whole numbers");
  if (!found.is_array()) damaged(key, "a list of whole numbers", printable(found.dump()));
  std::vector<std::int64_t> values;
  for (const json& item : found) values.push_back(integer_of(*this, item, key, low, high));
  return values;
}

std::vector<std::vector<std::int64_t>> ConfigJson::lists_of_integers(std::string_view key, double low,
                                                                     double high) const {
  const json& found = object_->required(*this, key, "a list of lists");
  if (!found.is_array()) damaged(key, "a list of lists", printable(found.dump()));
  std::vector<std::vector<std::int64_t>> lists;
  for (const json& list : found) {
    if (!list.is_array()) damaged(key, "a list of lists", printable(found.dump()));
    lists.emplace_back();
    for (const json& item : list) lists.back().push_back(integer_of(*this, item, key, low, high));
  }
  return lists;
}

ConfigJson ConfigJson::object(std::string_view key) const {
  const json& found = object_->required(*this, key, "an object");
  if (!found.is_object()) damaged(key, "an object", printable(found.dump()));
  return {path_, prefix_ + std::string(key) + ".", std::make_shared<Object>(Object{found})};
}

std::string ConfigJson::shown(std::string_view key) const {
  const json* found = object_->find(key);
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
