#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace moh {

/// A part of a run's data, in YAML {name: arxiv, path: FILES, weight: 4.37}. Data given as paths alone are
/// one part without a name.
struct DataSource {
  std::string name = {};
  std::vector<std::filesystem::path> paths;
  double weight = 0;  ///< share of the training rows, relative to the other weights; 0: not given
};

/// The part that paths alone stand for; no part if there are none.
inline std::vector<DataSource> unnamed_source(std::vector<std::filesystem::path> paths) {
  if (paths.empty()) return {};
  return {{.paths = std::move(paths)}};
}

/// Whether the parts have names.
inline bool is_mixture(const std::vector<DataSource>& sources) {
  return !sources.empty() && !sources[0].name.empty();
}

}  // namespace moh
