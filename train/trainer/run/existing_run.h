#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace moh {

struct RunConfig;

/// The configuration file that a run was started with: the first line of the config.yaml in its folder.
std::string origin_line(const std::string& config_file);

/// Throws ConfigError that refuses to start `run`, of the configuration `config_file`, in its output.dir,
/// where a run with checkpoints up to `step` is. What the message offers first loses nothing: another
/// output.dir if that run is of another configuration, otherwise --resume. --overwrite comes last, with what
/// it deletes.
[[noreturn]] void refuse_existing_run(const RunConfig& run, const std::string& config_file,
                                      std::int64_t step);

}  // namespace moh
