#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

/// A number as an error shows it: the shortest text that reads back as the same.
std::string number_text(std::int64_t number);
std::string number_text(double number);

/// Faults of a model's configuration, found by the model's own check. For a run's YAML each is reported at
/// the line and column of its keys; a program that makes a model from a struct throws the first.
class ConfigFaults {
 public:
  struct Fault {
    std::vector<std::string> keys;  ///< the keys involved, the most likely culprit first
    std::string expected, found, fix;
  };

  /// A field that users find elsewhere under another key, or, for a name that ends in a dot, all fields of a
  /// part.
  struct Elsewhere {
    std::string_view field, key;
  };

  /// `section` is the prefix of field names: "model." if the struct is a section of a YAML.
  explicit ConfigFaults(std::string section = "", std::vector<Elsewhere> elsewhere = {})
      : section_(std::move(section)), elsewhere_(std::move(elsewhere)) {}

  /// The field's name as users write it: with its section.
  std::string key(std::string_view field) const;
  void add(std::initializer_list<std::string_view> fields, std::string expected, std::string found,
           std::string fix = "");

  const std::vector<Fault>& all() const { return faults_; }
  /// Throws ValueError "where: key: expected E, found F; fix" for the first fault, if there is one.
  void throw_first(std::string_view where) const;

 private:
  std::string section_;
  std::vector<Elsewhere> elsewhere_;
  std::vector<Fault> faults_;
};

}  // namespace moh
