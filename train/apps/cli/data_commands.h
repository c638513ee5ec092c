#pragma once

#include <string>

#include "train/apps/cli/commands.h"

namespace moh::cli {

/// moh data info.
void add_data_info(const Commands& data);

}  // namespace moh::cli
