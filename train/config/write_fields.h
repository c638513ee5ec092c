#pragma once

#include <string>
#include <vector>

#include "train/config/fields.h"

namespace moh::config {

/// The field's value as YAML that read_fields() reads back to the same value, on one line.
std::string value_yaml(const Field& field);

/// All fields of the section, one line each, as YAML that read_fields() reads back to the same struct.
std::string section_yaml(const Section& root);

/// A field whose value is not the one expected.
struct Difference {
  std::string key;
  std::string expected, found;  ///< as YAML
  std::string fix;              ///< what to do about it, where that is known
};
/// Where two structs of one type differ, by their field lists.
std::vector<Difference> differences(const Section& expected, const Section& found);

/// The reference of the keys below `root` as Markdown: per section a table of key, what may stand there,
/// default, meaning. Defaults are the values that the struct behind `root` holds.
std::string reference_markdown(const Section& root);

}  // namespace moh::config
