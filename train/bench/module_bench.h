#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "train/bench/attention_cases.h"

namespace moh {

/// What `moh bench module` measures: a whole attention layer, router to output projection.
struct ModuleBenchOptions : AttentionCases {
  std::int64_t width = 768;
};

/// One line of results; times and ratios as in AttentionBenchRecord.
struct ModuleBenchRecord {
  std::string op;  ///< "attention_module" (dense) or "moh_attention_module"
  std::string device, dtype;
  std::int64_t batch = 0, tokens = 0, width = 0, heads = 0, head_dim = 0;
  bool causal = false;
  double active = 1.0;  ///< of the heads, as rounded to a whole number
  double forward_ms = 0.0, forward_backward_ms = 0.0;
  double forward_spread = 0.0, spread = 0.0;  ///< (90th - 10th percentile) / median
  double forward_ratio = 1.0, forward_backward_ratio = 1.0;
  double ideal_forward_saving = 1.0;  ///< dense multiplications over those of the active heads
  double achieved_of_ideal = 1.0;     ///< (1 / forward_ratio) / ideal_forward_saving
};

/// Multiplications of the layer's forward pass for one token that sees `visible` keys on average: queries and
/// output 2 a d D, keys and values 2 h d D, scores and values 2 a d n, and the router (h + 2) D when
/// `routed`.
double attention_module_multiplications(const ModuleBenchOptions& options, double visible,
                                        std::int64_t active_heads, bool routed);

/// Runs the measurements, handing each record over as soon as it is known. The dense layer has no router; a
/// MoH layer shares an eighth of the heads, and its learned router chooses the others. Full attention is the
/// layer of vision transformers (packed projection with bias), causal attention that of decoders (rotary
/// embedding, no bias). Throws ValueError naming the option that is out of range.
void run_module_bench(const ModuleBenchOptions& options,
                      const std::function<void(const ModuleBenchRecord&)>& on_record);

/// One JSON object with all fields, and a newline.
void write_json_line(std::ostream& out, const ModuleBenchRecord& record);

/// The head of a table for people, and one line of it.
void write_module_table_head(std::ostream& out);
void write_table_line(std::ostream& out, const ModuleBenchRecord& record);

}  // namespace moh
