#include "train/trainer/run/metrics_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace moh {

namespace {

std::string quoted(std::string_view text) {
  // Text may come from file names, and invalid UTF-8 must not make the line invalid JSON.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

MetricRecord::MetricRecord(std::string_view kind, std::int64_t step) {
  add("kind", kind);
  add("step", step);
}

MetricRecord& MetricRecord::add(std::string_view key, std::string_view value) {
  return put(key, quoted(value));
}

MetricRecord& MetricRecord::add(std::string_view key, std::span<const std::optional<double>> numbers) {
  std::string text;
  for (const std::optional<double>& value : numbers) {
    if (!text.empty()) text += ',';
    text += value ? number(key, *value) : "null";
  }
  return put(key, "[" + text + "]");
}

MetricRecord& MetricRecord::add(std::string_view key, std::span<const std::vector<float>> lists) {
  std::string text;
  for (const std::vector<float>& list : lists) {
    text += text.empty() ? "[" : ",[";
    for (std::size_t i = 0; i < list.size(); ++i) text += (i > 0 ? "," : "") + number(key, list[i]);
    text += ']';
  }
  return put(key, "[" + text + "]");
}

std::string MetricRecord::to_json() const {
  std::string line = "{" + fields_;
  if (!non_finite_.empty()) line += ",\"non_finite\":{" + non_finite_ + "}";
  return line + "}";
}

MetricRecord& MetricRecord::put(std::string_view key, const std::string& json) {
  const bool known = std::ranges::find(keys_, key) != keys_.end();
  MOH_CHECK(!known && key != "non_finite", "metrics: key '" + std::string(key) + "' twice in one record");
  keys_.emplace_back(key);
  fields_ += (fields_.empty() ? "" : ",") + quoted(key) + ":" + json;
  return *this;
}

template <class Float>
std::string MetricRecord::number(std::string_view key, Float value) {
  if (std::isfinite(value)) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
  }
  const std::string flag = quoted(key) + ":";
  if (non_finite_.find(flag) == std::string::npos) {  // of a list, the first one
    non_finite_ += (non_finite_.empty() ? "" : ",") + flag;
    non_finite_ += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  }
  return "null";
}

template std::string MetricRecord::number(std::string_view key, double value);

void MetricsWriter::show_in_tensorboard(const std::filesystem::path& path) {
  tensorboard_ = std::make_unique<TensorBoardFile>(path, file_.path());
}

void MetricsWriter::write(const MetricRecord& record) {
  const std::string line = record.to_json();
  file_.append(line);
  if (tensorboard_) tensorboard_->append(line);
  if (listener_) listener_(line);
}

}  // namespace moh
