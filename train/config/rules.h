#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "models/config_faults.h"
#include "train/config/problems.h"
#include "train/config/read_fields.h"

namespace moh::config {

/// Where rules between fields report to. A rule names the keys it is about, so that the message points at one
/// that the user wrote, and so that nothing is said about a value which could not be read in the first place.
class Rules {
 public:
  /// `main` stands for places when none of a rule's keys was given; `preset_key` is the key whose value fills
  /// in the other keys of its section.
  Rules(const GivenKeys& given, Mark main, std::string_view preset_key, Problems& problems)
      : given_(given), main_(main), preset_key_(preset_key), problems_(problems) {}

  /// "mark: key: expected E, found F; fix" for the first of `keys`, at the place of the first that was given.
  void refuse(std::initializer_list<std::string_view> keys, std::string_view expected, std::string_view found,
              std::string_view fix = "") {
    refuse(std::span(keys.begin(), keys.size()), expected, found, fix);
  }
  void refuse(std::span<const std::string_view> keys, std::string_view expected, std::string_view found,
              std::string_view fix = "");
  /// What a model's own check has found.
  void refuse(const ConfigFaults& faults);

 private:
  /// The key, or a section that it stands in.
  bool was_refused(std::string_view key) const;
  Mark place_of(std::span<const std::string_view> keys) const;

  const GivenKeys& given_;
  Mark main_;
  std::string_view preset_key_;
  Problems& problems_;
};

}  // namespace moh::config
