#pragma once

#include <string>
#include <vector>

#include "train/config/run_config.h"

namespace moh {

/// Reads a run's YAML file, what it includes, and the overrides "key.path=value" of the command line
/// (layers.h says how they combine), on top of the defaults, of the model preset if one is named, and of the
/// model of init.from, which presets.of_source looks up; touches no other file itself. Throws ConfigError
/// with one line per problem, all at once:
///   configs/llm/tiny.yaml:14:14: model.kv_heads: expected a divisor of model.heads (8), found 7
RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          const ModelPresets& presets);

/// The whole configuration as YAML that load_run_config() reads back to the same struct (`moh config FILE`,
/// and the config.yaml beside a checkpoint).
std::string print_resolved(const RunConfig& run);

/// The reference of all keys in Markdown (`moh config --reference`, docs/config.md).
std::string print_reference(const ModelPresets& presets);

}  // namespace moh
