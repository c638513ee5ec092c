#include "train/base/io/error_words.h"

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "train/base/io/printable.h"

namespace moh {

namespace {

std::string words_of(const std::filesystem::filesystem_error& error) {
  std::string paths = printable_path(error.path1());
  if (!error.path2().empty()) paths += ", " + printable_path(error.path2());
  return (paths.empty() ? "file system" : paths) + ": " + error.code().message();
}

/// The text of an error without "[json.exception.type_error.302] ".
std::string words_of(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return "JSON: " + printable(end == std::string_view::npos ? text : text.substr(end + 2), 200);
}

}  // namespace

std::string error_words(const std::exception& error) {
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return words_of(*files);
  if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error)) return words_of(*json);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (dynamic_cast<const std::length_error*>(&error) != nullptr)
    return "out of memory: a size is larger than any memory";
  return error.what();
}

}  // namespace moh
