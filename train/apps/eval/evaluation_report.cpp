#include "train/apps/eval/evaluation_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "train/base/io/printable.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// null for NaN and infinity, which JSON lacks.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

void write_line(std::ostream& out, const Json& object) {
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string row(const std::string& name, double value) {
  char text[160];
  std::snprintf(text, sizeof text, "%-14s %.6f\n", name.c_str(), value);
  return text;
}

}  // namespace

void write_table(std::ostream& out, const EvaluationReport& report) {
  const Evaluation& evaluation = report.evaluation;
  out << "checkpoint     " << printable_path(report.checkpoint) << "\nevaluated      "
      << printable_lines(evaluation.coverage) << '\n'
      << row(std::string(report.score.name), evaluation.score);
  for (const auto& [name, value] : evaluation.metrics) out << row(name, value);
  if (evaluation.details != nullptr) out << evaluation.details->table();
}

void write_json_line(std::ostream& out, const EvaluationReport& report) {
  const Evaluation& evaluation = report.evaluation;
  Json object = {{"checkpoint", report.checkpoint},
                 {"evaluated", evaluation.coverage},
                 {"score", report.score.name},
                 {std::string(report.score.name), number(evaluation.score)}};
  for (const auto& [name, value] : evaluation.metrics) object[name] = number(value);
  if (evaluation.details != nullptr) object.update(Json::parse(evaluation.details->json()));
  write_line(out, object);
}

void write_table(std::ostream& out, const FilePredictions& predictions) {
  out << printable_path(predictions.file) << '\n';
  for (const Prediction& each : predictions.classes) {
    char share[32];
    std::snprintf(share, sizeof share, "  %5.1f%%  ", 100 * each.probability);
    out << share << printable(each.name) << '\n';
  }
}

void write_json_line(std::ostream& out, const FilePredictions& predictions) {
  Json object = {{"file", predictions.file}};
  if (!predictions.error.empty()) {
    object["error"] = predictions.error;
  } else {
    object["classes"] = Json::array();
    for (const auto& [name, label, probability] : predictions.classes)
      object["classes"].push_back({{"name", name}, {"label", label}, {"probability", probability}});
  }
  write_line(out, object);
}

}  // namespace moh
