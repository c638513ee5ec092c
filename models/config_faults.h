#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

/// What is wrong with a model's configuration, as found by the model's own check. A run's YAML reports each
/// fault at the place of its keys; a program that makes a model from a struct throws the first.
class ConfigFaults {
 public:
  struct Fault {
    std::vector<std::string> keys;  ///< what it is about, the one to blame first
    std::string expected, found, fix;
  };

  /// `section` stands before the names of fields: "model." where the struct is a section of a YAML.
  explicit ConfigFaults(std::string section = "") : section_(std::move(section)) {}

  /// The field's name as the user knows it.
  std::string key(std::string_view field) const { return section_ + std::string(field); }
  void add(std::initializer_list<std::string_view> fields, std::string expected, std::string found,
           std::string fix = "");

  const std::vector<Fault>& all() const { return faults_; }
  /// Throws ValueError "where: key: expected E, found F; fix" for the first fault, if there is one.
  void throw_first(std::string_view where) const;

 private:
  std::string section_;
  std::vector<Fault> faults_;
};

}  // namespace moh
