#pragma once

#include <string>

#include "train/config/fields.h"

namespace moh::config {

/// The field's value as YAML that read_value() reads back to the same value, on one line.
std::string value_yaml(const Field& field);

/// All fields of the section, one line each, as YAML that read_fields() reads back to the same struct.
std::string section_yaml(const Section& root);

}  // namespace moh::config
