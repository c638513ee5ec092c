#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

/// The object of a config.json of Hugging Face's libraries, or an object inside it, with type-checked access.
/// A key whose value is null counts as absent.
class ConfigJson {
 public:
  /// Parses an untrusted file: at most 1 MiB, 16 levels of nesting, no duplicate keys, no NUL. Throws
  /// CheckpointError.
  explicit ConfigJson(const std::filesystem::path& path);

  bool has(std::string_view key) const;
  /// Whether the value of the key is null, which may differ from an absent key, for which there is a default.
  bool is_null(std::string_view key) const;
  std::vector<std::string> keys() const;
  bool is_list(std::string_view key) const;

  /// The value; throws CheckpointError if it is absent, of another type, or not in [low, high].
  std::int64_t integer(std::string_view key, double low, double high) const;
  double number(std::string_view key) const;
  double positive(std::string_view key) const;  ///< a number above 0
  bool truth(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key, double low, double high) const;
  std::vector<std::vector<std::int64_t>> lists_of_integers(std::string_view key, double low,
                                                           double high) const;
  ConfigJson object(std::string_view key) const;
  std::string object_text(std::string_view key) const;  ///< the object as JSON, on one line

  double number_or(std::string_view key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  bool truth_or(std::string_view key, bool otherwise) const { return has(key) ? truth(key) : otherwise; }
  std::string text_or(std::string_view key, std::string otherwise) const {
    return has(key) ? text(key) : std::move(otherwise);
  }

  /// The value as text, for messages.
  std::string shown(std::string_view key) const;

  /// Throws CheckpointError: the file is damaged or malformed.
  [[noreturn]] void damaged(std::string_view key, std::string_view expected, std::string_view found) const;
  /// Throws ConfigError: the file is valid, but moh does not support the model.
  [[noreturn]] void unsupported(std::string_view key, std::string_view expected, std::string_view found,
                                std::string_view fix = "") const;

 private:
  struct Object;  // hides the JSON library, which only the source file includes

  ConfigJson(std::filesystem::path path, std::string prefix, std::shared_ptr<const Object> object)
      : path_(std::move(path)), prefix_(std::move(prefix)), object_(std::move(object)) {}

  std::filesystem::path path_;
  std::string prefix_;  // of the keys of an inner object: "rope_scaling."
  std::shared_ptr<const Object> object_;
};

}  // namespace moh
