#include "train/weights/describe_weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "train/base/io/printable.h"
#include "train/base/log/format.h"
#include "train/weights/fold_names.h"

namespace moh {

namespace {

using Row = std::vector<std::string>;

struct Totals {
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;

  void add(const WeightInfo& tensor) {
    ++tensors;
    parameters += tensor.shape.numel();
    bytes += tensor.bytes;
  }
};

struct Contents {
  Totals all;
  std::map<std::string_view, Totals> by_type;
};

Contents contents_of(const WeightFile& weights) {
  Contents contents;
  for (const WeightInfo& tensor : weights.tensors()) {
    contents.all.add(tensor);
    contents.by_type[tensor.stored_dtype].add(tensor);
  }
  return contents;
}

std::string bytes_text(std::uint64_t bytes) {
  return format_bytes(static_cast<std::int64_t>(bytes));
}

std::string types_text(const Contents& contents) {
  if (contents.by_type.size() == 1) return std::string(contents.by_type.begin()->first);
  std::string text;
  for (const auto& [type, totals] : contents.by_type) {
    text += (text.empty() ? "" : ", ") + std::string(type) + " " + std::to_string(totals.tensors) +
            (totals.tensors == 1 ? " tensor (" : " tensors (") + bytes_text(totals.bytes) + ")";
  }
  return text;
}

/// The rows as aligned columns, separated by two spaces.
std::string aligned(std::span<const Row> rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      text.append(row[i]).append(widths[i] - row[i].size() + 2, ' ');
    }
    text.append(row.back()).append("\n");
  }
  return text;
}

std::string tensor_table(const WeightFile& weights, bool all) {
  const std::span<const WeightInfo> tensors = weights.tensors();
  std::vector<Row> rows;
  rows.push_back(all ? Row{"tensor", "type", "shape"} : Row{"tensors", "number", "type", "shape"});
  const auto add = [&](Row row, const WeightInfo& tensor) {
    row.insert(row.end(), {std::string(tensor.stored_dtype), to_string(tensor.shape)});
    rows.push_back(std::move(row));
  };
  if (all) {
    for (const WeightInfo& tensor : tensors) add({printable(tensor.name, 400)}, tensor);
  } else {
    for (const auto& [name, first, count] : fold_tensors(tensors))
      add({name, std::to_string(count)}, tensors[first]);
  }
  return aligned(rows);
}

/// At most `most` rows of each section, and the number of further ones.
std::string sections_text(const WeightFile& weights, std::size_t most) {
  std::string text;
  for (const WeightSection& section : weights.other_contents()) {
    std::vector<Row> rows;
    for (const auto& [name, value] : section.rows) {
      if (rows.size() == most) break;
      rows.push_back({"  " + name, value});
    }
    text += "\n" + section.title + "\n" + aligned(rows);
    if (section.rows.size() > most)
      text += "  ... and " + std::to_string(section.rows.size() - most) + " more (--all)\n";
  }
  return text;
}

}  // namespace

std::string describe(const WeightSummary& summary, bool all) {
  const WeightFile& weights = *summary.weights;
  const Contents contents = contents_of(weights);
  std::vector<Row> rows = {{"path", printable(weights.path().string(), 400)}, {"format", weights.format()}};
  if (!summary.model.empty()) rows.push_back({"model", summary.model});
  for (const auto& [key, value] : weights.metadata()) {
    rows.push_back({"metadata", printable(key) + ": " + printable(value)});
  }
  rows.push_back({"tensors", std::to_string(contents.all.tensors)});
  rows.push_back({"parameters", std::to_string(contents.all.parameters)});
  rows.push_back({"size", bytes_text(contents.all.bytes)});
  if (contents.all.tensors > 0) rows.push_back({"types", types_text(contents)});
  if (summary.hash) rows.push_back({"hash", *summary.hash});
  constexpr std::size_t kFewRows = 12, kAllRows = 1 << 20;
  return aligned(rows) + "\n" + tensor_table(weights, all) +
         sections_text(weights, all ? kAllRows : kFewRows);
}

std::string to_json(const WeightSummary& summary) {
  const WeightFile& weights = *summary.weights;
  const Contents contents = contents_of(weights);
  nlohmann::ordered_json object = {{"path", weights.path().string()},
                                   {"format", weights.format()},
                                   {"metadata", nlohmann::ordered_json::object()}};
  for (const auto& [key, value] : weights.metadata()) object["metadata"][key] = value;
  if (!summary.model.empty()) object["model"] = summary.model;
  object["parameters"] = contents.all.parameters;
  object["bytes"] = contents.all.bytes;
  object["dtypes"] = nlohmann::ordered_json::object();
  for (const auto& [type, totals] : contents.by_type) {
    object["dtypes"][std::string(type)] = {
        {"tensors", totals.tensors}, {"parameters", totals.parameters}, {"bytes", totals.bytes}};
  }
  if (summary.hash) object["hash"] = *summary.hash;
  for (const WeightSection& section : weights.other_contents()) {
    nlohmann::ordered_json& rows = object["contents"][section.title] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : section.rows) rows[name] = value;
  }
  object["tensors"] = nlohmann::ordered_json::array();
  for (const WeightInfo& t : weights.tensors()) {
    object["tensors"].push_back(
        {{"name", t.name}, {"dtype", t.stored_dtype}, {"shape", t.shape.extents()}, {"bytes", t.bytes}});
  }
  // PyTorch files may have names that are invalid UTF-8, which must not prevent showing the rest.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string format_and_part(const WeightFile& weights) {
  std::string text;
  for (const std::string& part : weights.parts()) text += (text.empty() ? "" : ", ") + part;
  if (text.empty()) return weights.format();
  return weights.format() + ", " + printable(weights.metadata().at("part")) + " of " + text;
}

}  // namespace moh
