#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/apps/watch/run_data.h"
#include "train/apps/watch/series.h"

namespace moh::watch {

/// The runs that are drawn in one colour: one, or those that differ in seed alone, as mean and band.
struct DrawnRuns {
  std::vector<int> ids;
  std::vector<std::shared_ptr<const RunData>> data;  ///< of each
};

/// A page's request for curves of runs.
struct CurvesRequest {
  std::vector<DrawnRuns> drawn;
  std::vector<std::string> names;
  Window window;
};

/// {"NAME": [{"runs": [0], "steps": [...], "values": [...]}, {"runs": [1, 2], "steps", "mean", "low",
/// "high"}]}: a curve for each entry of `drawn` that has numbers of the name.
std::string curves_json(const CurvesRequest& request);

}  // namespace moh::watch
