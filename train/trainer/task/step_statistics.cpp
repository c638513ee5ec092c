#include "train/trainer/task/step_statistics.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

/// The value under `key` in (key, value) pairs, which gets one if it is not there yet.
template <class T>
T& under(std::vector<std::pair<std::string_view, T>>& pairs, std::string_view key) {
  const auto found = std::ranges::find(pairs, key, &std::pair<std::string_view, T>::first);
  return found == pairs.end() ? pairs.emplace_back(key, T()).second : found->second;
}

template <class T>
T& at_layer(std::vector<T>& layers, std::int64_t layer) {
  const auto index = static_cast<std::size_t>(layer);
  if (layers.size() <= index) layers.resize(index + 1);
  return layers[index];
}

/// A scalar while it is summed.
struct Sum {
  double sum = 0, weight = 0;
  std::string_view label;
};

/// Adds up a step, micro-batch by micro-batch.
class Adder {
 public:
  explicit Adder(std::int64_t micro_batches) : count_(static_cast<double>(micro_batches)) {}

  /// Makes the place of a number, so that keys keep their order.
  void declare(const NamedNumber& number, std::size_t count) {
    if (number.kind == NumberKind::kRow) {
      at_layer(under(rows_, number.key), number.layer).resize(count);
    } else if (number.kind == NumberKind::kLayer) {
      at_layer(under(layers_, number.key), number.layer);
    } else {
      Sum& sum = under(scalars_, number.key);
      sum.sum += number.constant;
      sum.weight += number.weight;
      sum.label = number.label;
    }
  }

  void add(const NamedNumber& number, std::span<const double> values) {
    if (values.empty()) return;
    if (number.kind == NumberKind::kRow) {
      std::vector<float>& row = at_layer(under(rows_, number.key), number.layer);
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] += static_cast<float>(values[i]) / static_cast<float>(count_);
    } else if (number.kind == NumberKind::kLayer) {
      std::optional<double>& of_layer = at_layer(under(layers_, number.key), number.layer);
      of_layer = of_layer.value_or(0) + values[0] / count_;
    } else if (number.kind == NumberKind::kSum) {
      under(scalars_, number.key).sum += values[0];
    } else {
      under(scalars_, number.key).sum += mean_of(values) / count_;
    }
  }

  void derive(const NamedNumber& number) {
    std::optional<double>& of_layer = at_layer(under(layers_, number.derived.key), number.layer);
    if (number.derived.of != nullptr)
      of_layer = number.derived.of(at_layer(under(rows_, number.key), number.layer));
  }

  StepStatistics result(std::int64_t items) {
    StepStatistics result{.items = items, .scalars = {}, .rows = std::move(rows_), .layers = {}};
    for (const auto& [key, sum] : scalars_) result.scalars.push_back({key, sum.sum / sum.weight, sum.label});
    for (auto& [key, numbers] : layers_) {
      const bool any = std::ranges::any_of(numbers, [](const auto& number) { return number.has_value(); });
      if (any) result.layers.emplace_back(key, std::move(numbers));
    }
    return result;
  }

 private:
  double count_;
  std::vector<std::pair<std::string_view, Sum>> scalars_;
  std::vector<std::pair<std::string_view, std::vector<std::vector<float>>>> rows_;
  std::vector<std::pair<std::string_view, std::vector<std::optional<double>>>> layers_;
};

}  // namespace

NumberLayout::NumberLayout(std::vector<NamedNumber> numbers) {
  for (NamedNumber& number : numbers) {
    const Tensor value = std::exchange(number.value, {});
    entries_.push_back({number, value.defined() ? static_cast<std::size_t>(value.numel()) : 0});
  }
}

StepStatistics NumberLayout::statistics(std::int64_t items, std::int64_t micro_batches,
                                        std::span<const double> numbers) const {
  Adder step(micro_batches);
  for (const Entry& entry : entries_) step.declare(entry.number, entry.count);
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    for (const Entry& entry : entries_) {
      MOH_CHECK(numbers.size() >= entry.count, "each micro-batch has the numbers of the layout");
      step.add(entry.number, numbers.first(entry.count));
      numbers = numbers.subspan(entry.count);
    }
  }
  for (const Entry& entry : entries_) {
    if (!entry.number.derived.key.empty()) step.derive(entry.number);
  }
  return step.result(items);
}

std::optional<std::int64_t> NumberLayout::column_of(std::string_view key, std::int64_t layer) const {
  std::size_t column = 0;
  for (const Entry& entry : entries_) {
    if (entry.number.key == key && entry.number.layer == layer && entry.count > 0)
      return static_cast<std::int64_t>(column);
    column += entry.count;
  }
  return std::nullopt;
}

std::vector<Tensor> values_of(std::span<const NamedNumber> numbers) {
  std::vector<Tensor> values;
  for (const NamedNumber& number : numbers) {
    if (number.value.defined()) values.push_back(number.value);
  }
  return values;
}

}  // namespace moh
