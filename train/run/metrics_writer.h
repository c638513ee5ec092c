#pragma once

#include <cstdint>
#include <filesystem>

#include "train/io/jsonl_file.h"
#include "train/run/metric_record.h"

namespace moh {

/// The metrics.jsonl of a run. A run that is killed and resumed leaves each step's records exactly once:
/// opening cuts off a torn last line and takes out what the killed process wrote past the step that the run
/// resumes from. Throws StorageError.
class MetricsWriter {
 public:
  /// Opens or creates the file and keeps the records up to `keep_through_step`: the step of the checkpoint
  /// that is resumed from, or -1 for a new run, which keeps none. With `evaluates_again` the evaluation of
  /// that step is not kept.
  MetricsWriter(std::filesystem::path path, std::int64_t keep_through_step, bool evaluates_again = false);

  /// Records that opening took out because the run writes those steps again.
  std::int64_t dropped_records() const { return dropped_records_; }
  bool repaired_torn_line() const { return file_.was_torn(); }

  /// Appends the record as one line in one write, which survives the death of the process. When the disk is
  /// full the file keeps its previous end.
  void write(const MetricRecord& record) { file_.append(record.to_json()); }
  /// Puts what was written on the disk. Call it before a checkpoint of the same step is published, so that a
  /// power cut cannot leave a checkpoint without the records that lead to it.
  void sync() { file_.sync(); }

 private:
  JsonlFile file_;
  std::int64_t dropped_records_;
};

}  // namespace moh
