#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// One line of metrics.jsonl: a JSON object that starts with "kind" and "step". Steps count finished
/// optimiser steps. Keys that tools (scripts/plot_run.py) know:
///
///   train  loss (nats per token), learning_rate, grad_norm, balance_loss, activated_heads (share, 0 ... 1,
///          of the heads whose attention was computed; straight_through: all computes every head), head_load
///          (per layer a list: the share of tokens that each routed head served, in the order of their
///          numbers, without the shared heads; an empty list for a layer without routing), tokens (seen so
///          far), tokens_per_s, elapsed_s, peak_memory_bytes
///   eval   loss, perplexity, bits_per_byte, elapsed_s
///   event  event (what happened, such as "resume")
///
/// JSON has no NaN and no infinity: such a number becomes null, and the object "non_finite" at the end of the
/// line says which one it was ({"loss": "nan"}), so that every JSON reader can read the line and nothing is
/// lost.
class MetricRecord {
 public:
  MetricRecord(std::string_view kind, std::int64_t step);

  std::int64_t step() const { return step_; }

  /// Adds a field; each key once. Floating numbers are written with as many digits as their type needs to be
  /// read back exactly.
  template <std::integral T>
  MetricRecord& add(std::string_view key, T value) {
    return add_integer(key, static_cast<std::int64_t>(value));
  }
  MetricRecord& add(std::string_view key, double value);
  MetricRecord& add(std::string_view key, float value);
  MetricRecord& add(std::string_view key, std::string_view value);
  MetricRecord& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  /// One list per layer.
  MetricRecord& add(std::string_view key, std::span<const std::vector<float>> lists);

  /// The line, without a newline.
  std::string to_json() const;

 private:
  MetricRecord& add_integer(std::string_view key, std::int64_t value);
  void start_field(std::string_view key);
  template <class Float>
  void append_number(std::string_view key, Float value);

  std::int64_t step_;
  std::string fields_;
  std::string non_finite_;
  std::vector<std::string> keys_;
};

}  // namespace moh
