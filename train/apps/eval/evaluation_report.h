#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "train/trainer/task/predictor.h"
#include "train/trainer/task/task.h"

namespace moh {

/// The result of evaluating a checkpoint.
struct EvaluationReport {
  std::string checkpoint;
  Score score;
  Evaluation evaluation;
};
void write_table(std::ostream& out, const EvaluationReport& report);
/// One JSON object: checkpoint, evaluated, score (its name), the metrics under their names, and what the
/// details add.
void write_json_line(std::ostream& out, const EvaluationReport& report);

/// The classes of one file; or, where it could not be read, the reason why.
struct FilePredictions {
  std::string file;
  std::vector<Prediction> classes;
  std::string error;  ///< empty: none
};
void write_table(std::ostream& out, const FilePredictions& predictions);
/// One JSON object: file, and classes (a list of name, label and probability) or error.
void write_json_line(std::ostream& out, const FilePredictions& predictions);

}  // namespace moh
