#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace moh::watch {

/// The resolved configuration of a run, flat: "optim.learning_rate" and its text.
using Settings = std::map<std::string, std::string>;

/// Reads config.yaml; empty where it is not there or cannot be read.
Settings settings_of(const std::filesystem::path& run);

/// The seed of a run among others, and what it shares with those that differ from it in seed alone.
struct RunKind {
  std::string seed;
  std::string group;  ///< equal for runs that differ in seed and folder alone; empty without a configuration
  std::string differs;  ///< settings that are not the same in all runs, but the seed: "model.moh.top_k=2"
};
/// For each run, in their order.
std::vector<RunKind> kinds_of(const std::vector<Settings>& runs);

}  // namespace moh::watch
