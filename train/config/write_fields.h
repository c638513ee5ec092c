#pragma once

#include <string>
#include <vector>

#include "train/config/fields.h"

namespace moh::config {

/// The field's value as YAML that read_fields() reads back to the same value, on one line.
std::string value_yaml(const Field& field);

/// All fields of the section, one line each, as YAML that read_fields() reads back to the same struct.
std::string section_yaml(const Section& root);

/// A field whose value differs.
struct Difference {
  std::string key;
  std::string expected, found;  ///< as YAML
  std::string fix;              ///< how to resolve it, if known
  FieldProperties properties = {};
};
/// The fields in which two structs of the same type differ.
std::vector<Difference> differences(const Section& expected, const Section& found);
/// Likewise, without fields that have the property.
std::vector<Difference> differences(const Section& expected, const Section& found, FieldProperty except);

/// The reference of all keys of `root` as Markdown: for each section a table of key, allowed values, default,
/// and meaning. Defaults are the current values of the struct.
std::string reference_markdown(const Section& root);

}  // namespace moh::config
