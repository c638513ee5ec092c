#pragma once

#include <string>

#include "train/cli/commands.h"

namespace moh::cli {

/// moh data info.
void add_data_info(const Commands& data);

/// --bin-dtype, of commands that read token ids of other programs.
void add_bin_dtype_option(CLI::App& command, std::string& bin_dtype);

}  // namespace moh::cli
