#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "train/config/load_run_config.h"

namespace moh {

/// Presets that need no model: "tiny_dense" and "tiny_moh" (4 layers, 6 heads of 16).
ModelPresets tiny_presets();

/// A folder of config files. Messages name files relative to it.
class ConfigFolder {
 public:
  void write(const std::string& name, const std::string& text) const { write_file(folder_ / name, text); }
  RunConfig load(const std::string& name, const std::vector<std::string>& overrides = {}) const;
  /// The message of the ConfigError that loading throws; fails the test when it throws none.
  std::string error(const std::string& name, const std::vector<std::string>& overrides = {}) const;

 private:
  TemporaryFolder folder_;
};

/// Loads `text` as a.yaml, with data.train (which has no default) given on the command line.
RunConfig load_text(const std::string& text, std::vector<std::string> overrides = {});
/// The message of the ConfigError that this throws.
std::string error_of(const std::string& text, std::vector<std::string> overrides = {});

}  // namespace moh
