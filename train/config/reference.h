#pragma once

#include <string>

#include "train/config/fields.h"

namespace moh::config {

/// What stands above the reference: how files, overrides and includes work.
std::string reference_preface();

/// The reference of the keys below `root` as Markdown: per section a table of key, what may stand there,
/// default, meaning. Defaults are the values that the struct behind `root` holds.
std::string reference_markdown(const Section& root);

}  // namespace moh::config
