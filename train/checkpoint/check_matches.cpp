#include <map>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::string describe(const TensorSpec& spec) {
  return to_string(spec.shape) + " " + std::string(dtype_name(spec.dtype));
}

std::vector<std::string> differences(std::span<const TensorSpec> expected,
                                     std::span<const TensorSpec> found) {
  std::map<std::string_view, const TensorSpec*> unmatched;
  for (const TensorSpec& spec : found) unmatched.emplace(spec.name, &spec);
  std::vector<std::string> lines;
  for (const TensorSpec& spec : expected) {
    const auto match = unmatched.extract(spec.name);
    if (match.empty()) {
      lines.push_back(error_message(spec.name, "", describe(spec), "no tensor of this name"));
    } else if (const TensorSpec& other = *match.mapped();
               other.shape != spec.shape || other.dtype != spec.dtype) {
      lines.push_back(error_message(spec.name, "", describe(spec), describe(other)));
    }
  }
  for (const auto& [name, spec] : unmatched) {
    lines.push_back(error_message(printable(name), "", "no tensor of this name", describe(*spec)));
  }
  return lines;
}

}  // namespace

void check_matches(std::string_view where, std::span<const TensorSpec> expected,
                   std::span<const TensorSpec> found) {
  const std::vector<std::string> lines = differences(expected, found);
  if (lines.empty()) return;
  std::string message(where);
  if (lines.size() == 1) throw CheckpointError(message + ": " + lines.front());
  message += ": " + std::to_string(lines.size()) + " tensors differ from the model's:";
  for (const std::string& line : lines) message += "\n  " + line;
  throw CheckpointError(message);
}

}  // namespace moh
