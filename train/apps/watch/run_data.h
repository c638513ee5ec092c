#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/apps/watch/head_frames.h"
#include "train/apps/watch/line_follower.h"
#include "train/apps/watch/series.h"

namespace moh::watch {

/// The memory that a run's numbers may take.
struct DataLimits {
  std::size_t points = std::size_t{1} << 21;  ///< of all series together; beyond it the longest are halved
  std::size_t frame_bytes = std::size_t{4} << 20;  ///< of the heads' frames
};

/// The numbers of a run's metrics.jsonl, read as they come, under the names that they have in TensorBoard:
/// "train/loss", "train/router_margin/layer_3", "event/spike". Lines that are no records are passed over.
/// Thread-safe.
class RunData {
 public:
  explicit RunData(const std::filesystem::path& run) : lines_(run / "metrics.jsonl") {}

  /// Reads on for a few megabytes at most; whether there is more.
  bool advance(const DataLimits& limits);

  struct Facts {
    std::uint64_t revision = 0;  ///< other whenever the numbers are
    double loaded = 1.0;         ///< share of the file that has been read
    std::uint32_t last_step = 0;
    std::vector<std::string> names;
  };
  Facts facts() const;
  /// Calls `use` with the points of a name, none if there is no such name.
  void with_points(std::string_view name, FunctionRef<void(std::span<const Point>)> use) const;
  HeadFrames heads() const;

 private:
  void add_record(std::string_view line);
  void add_number(const std::string& name, std::uint32_t step, double value);
  void restart();
  /// Whether that took something away.
  bool keep_within(const DataLimits& limits);

  mutable std::mutex mutex_;
  LineFollower lines_;
  bool waits_ = true;  // there is more to read
  std::uint64_t revision_ = 0;
  std::uint32_t last_step_ = 0;
  std::map<std::string, Series, std::less<>> series_;
  HeadFrames heads_;
};

}  // namespace moh::watch
