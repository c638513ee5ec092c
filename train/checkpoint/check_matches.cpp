#include <algorithm>
#include <functional>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/formats/match_names.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::string describe(const TensorSpec& spec) {
  return to_string(spec.shape) + " " + std::string(dtype_name(spec.dtype));
}

std::vector<std::string> differences(std::span<const TensorSpec> expected,
                                     std::span<const TensorSpec> found) {
  auto match = match_names(expected, found);
  std::vector<std::string> lines;
  for (const auto& [spec, other] : match.expected) {
    if (other == nullptr) {
      lines.push_back(error_message(spec->name, "", describe(*spec), "no tensor of this name"));
    } else if (other->shape != spec->shape || other->dtype != spec->dtype) {
      lines.push_back(error_message(spec->name, "", describe(*spec), describe(*other)));
    }
  }
  std::ranges::sort(match.unexpected, std::less<>(), &TensorSpec::name);
  for (const TensorSpec* spec : match.unexpected) {
    lines.push_back(error_message(printable(spec->name), "", "no tensor of this name", describe(*spec)));
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
