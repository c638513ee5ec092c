#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// A number under its key in metrics.jsonl. With a `label`, it is also shown on the console: as a percentage
/// after the label during training, and under its key in the summary of the run.
struct NamedScalar {
  std::string_view name;
  double value = 0;
  std::string_view label = {};

  bool operator==(const NamedScalar&) const = default;
};

/// Statistics of a step besides its loss, over all its micro-batches.
struct StepStatistics {
  std::int64_t items = 0;            ///< in the task's unit
  std::vector<NamedScalar> scalars;  ///< "balance_loss"; "activated_heads", shown as "heads"
  /// Lists by layer: "head_load", the share of tokens that selected each routed head, by head number.
  std::vector<std::pair<std::string_view, std::vector<std::vector<float>>>> rows;
  /// A number of each layer, or none: "router_margin".
  std::vector<std::pair<std::string_view, std::vector<std::optional<double>>>> layers;
};

/// How the numbers of a step's micro-batches, and of several entries under one key, become one.
enum class NumberKind : std::uint8_t {
  kSum,    ///< a scalar: the sum over the micro-batches
  kMean,   ///< a scalar: the mean over elements and micro-batches
  kLayer,  ///< one number for each layer: the mean over the micro-batches
  kRow     ///< a list for each layer: the mean over the micro-batches, by element, in float32
};

/// A number for each layer that follows from the layer's row of a step.
struct NumberOfRow {
  std::string_view key = {};                           ///< of all layers, or of none
  double (*of)(std::span<const float> row) = nullptr;  ///< null: this layer has no number
};

/// A number that a micro-batch reports, under its key in metrics.jsonl. Keys appear there in the order of
/// their first entries, and outlive all (they are literals).
struct NamedNumber {
  std::string_view key;
  NumberKind kind = NumberKind::kMean;
  Tensor value;            ///< any shape, on the model's device; undefined: the constant alone, or no number
  std::int64_t layer = 0;  ///< kLayer, kRow: 0, 1, ... for each key, without gaps
  double constant = 0;     ///< a scalar: added once
  double weight = 1;       ///< a scalar: what its entries sum to is divided by the sum of their weights
  std::string_view label = {};  ///< NamedScalar
  NumberOfRow derived = {};     ///< kRow
};

/// The meaning of the packed numbers of a micro-batch. Travels with a step from the pass that made its
/// numbers to the host that reads them, as later steps may have others.
class NumberLayout {
 public:
  NumberLayout() = default;
  explicit NumberLayout(std::vector<NamedNumber> numbers);

  /// The statistics of a step of `items` in `micro_batches`, whose values lie one after the other in
  /// `numbers`, by micro-batch.
  StepStatistics statistics(std::int64_t items, std::int64_t micro_batches,
                            std::span<const double> numbers) const;
  /// The column, in the packed numbers of a micro-batch, at which the value of `key` begins for a layer;
  /// nothing if it has none.
  std::optional<std::int64_t> column_of(std::string_view key, std::int64_t layer) const;

 private:
  struct Entry {
    NamedNumber number;  // without its value
    std::size_t count;   // elements of the value
  };

  std::vector<Entry> entries_;
};

/// The values of `numbers`, in their order, without the undefined ones: what is packed.
std::vector<Tensor> values_of(std::span<const NamedNumber> numbers);

}  // namespace moh
