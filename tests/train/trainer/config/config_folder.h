#pragma once

#include <string>
#include <vector>

#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"

namespace moh {

/// The families that the tests read configurations of: language models.
FamilyConfigs language_only();

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
