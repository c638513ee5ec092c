#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/base/io/jsonl_file.h"
#include "train/trainer/run/tensorboard_file.h"

namespace moh {

/// One line of metrics.jsonl: a JSON object that starts with "kind" and "step". Steps count finished
/// optimiser steps. docs/metrics.md describes every kind of record and every field.
///
/// JSON has no NaN and no infinity: such a number becomes null, and the object "non_finite" at the end of the
/// line has its value ({"loss": "nan"}), so that every JSON parser accepts the line and nothing is lost.
class MetricRecord {
 public:
  MetricRecord(std::string_view kind, std::int64_t step);

  /// Adds a field; each key once. Floating-point numbers have as many digits as reading them back exactly
  /// needs.
  template <std::integral T>
  MetricRecord& add(std::string_view key, T value) {
    return put(key, std::to_string(value));
  }
  MetricRecord& add(std::string_view key, double value) { return put(key, number(key, value)); }
  MetricRecord& add(std::string_view key, std::string_view value);
  MetricRecord& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  /// A number per layer; null where a layer has none.
  MetricRecord& add(std::string_view key, std::span<const std::optional<double>> numbers);
  /// One list per layer.
  MetricRecord& add(std::string_view key, std::span<const std::vector<float>> lists);

  /// The line, without a newline.
  std::string to_json() const;

 private:
  MetricRecord& put(std::string_view key, const std::string& json);
  /// A number as JSON; NaN and infinity are recorded in non_finite_.
  template <class Float>
  std::string number(std::string_view key, Float value);

  std::string fields_;
  std::string non_finite_;
  std::vector<std::string> keys_;
};

/// Gets each line of metrics.jsonl when it has been written; empty: nobody does.
using MetricListener = std::function<void(std::string_view line)>;

/// The metrics.jsonl of a run. It has each step's records exactly once even if the run is killed and resumed:
/// opening removes an incomplete last line, and records after the step from which the run resumes. Throws
/// StorageError.
class MetricsWriter {
 public:
  /// Opens or creates the file and keeps the records up to step `keep_through_step`: that of the checkpoint
  /// from which the run resumes, or -1 for a new run. With `evaluates_again` the evaluation record of that
  /// step is removed, too.
  MetricsWriter(std::filesystem::path path, std::int64_t keep_through_step, bool evaluates_again = false)
      : file_(std::move(path)),
        dropped_records_(file_.drop_records_after(keep_through_step, evaluates_again ? "eval" : "")) {}

  /// From now on `path` has the records for TensorBoard, those that are there included.
  void show_in_tensorboard(const std::filesystem::path& path);

  /// Number of records that opening removed because the run repeats those steps.
  std::int64_t dropped_records() const { return dropped_records_; }
  bool repaired_torn_line() const { return file_.was_torn(); }

  /// Appends the record as one line in one write(), which survives a crash of the process. If the disk is
  /// full the file is unchanged.
  void write(const MetricRecord& record);
  void set_listener(MetricListener listener) { listener_ = std::move(listener); }
  /// Syncs to disk. Call it before a checkpoint of the same step is published, so that after a power loss no
  /// checkpoint lacks the records up to it.
  void sync() { file_.sync(); }

 private:
  JsonlFile file_;
  std::int64_t dropped_records_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
  MetricListener listener_;
};

}  // namespace moh
