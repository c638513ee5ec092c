#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/config/value.h"

namespace moh::config {

/// Which keys were given, where, and which of them could not be read.
struct GivenKeys {
  std::map<std::string, Mark, std::less<>> places;  ///< of the value that holds: the last layer's
  /// Keys, sections too, whose value was refused, and those that a misspelt key was probably meant to be.
  std::set<std::string, std::less<>> refused;
};

/// Reads the values of one layer into the struct that `root` lists, and leaves fields that the layer does not
/// give as they are. Reports unknown keys (naming the nearest known one), values of the wrong type and values
/// out of bounds; those fields keep what they had.
void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems);

}  // namespace moh::config
