#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/apps/watch/braille_chart.h"
#include "train/apps/watch/run_data.h"

namespace moh::watch {

/// Losses and states of runs as text.
class TerminalView {
 public:
  /// Runs beyond this number have a line each, but no curve.
  static constexpr std::size_t kMostCurves = 12;

  /// `paths`: folders of runs, or folders with runs in them. Throws DataError if one has none.
  explicit TerminalView(const std::vector<std::filesystem::path>& paths);

  /// Reads what is new of the runs, and returns a chart of their training losses and a line for each, at most
  /// `size.rows` lines in all.
  std::string frame(const ChartSize& size);

 private:
  std::vector<std::filesystem::path> folders_;
  std::vector<std::unique_ptr<RunData>> data_;  // of the first ones
};

/// Prints one frame to stdout, or, where that is a terminal, redraws it in place every second until `stop`
/// returns true. Throws as TerminalView does.
void watch_in_terminal(const std::vector<std::filesystem::path>& paths, FunctionRef<bool()> stop);

}  // namespace moh::watch
