#include "train/weights/compare_weights.h"

#include <string_view>

#include "core/error.h"
#include "train/formats/match_names.h"
#include "train/weights/fold_names.h"

namespace moh {

namespace {

std::vector<TensorSpec> specs_of(std::span<const NamedParameter> parameters) {
  std::vector<TensorSpec> specs;
  for (const NamedParameter& p : parameters)
    specs.push_back({p.name, p.variable.shape(), p.variable.dtype()});
  return specs;
}

std::string lines(std::string_view kind, std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : fold_lines(names)) text.append("\n  ").append(kind).append(name);
  return text;
}

}  // namespace

WeightDifferences compare_weights(std::span<const TensorSpec> parameters, const WeightFile& weights,
                                  const WeightNames* names) {
  WeightDifferences differences;
  const auto match = match_names(parameters, weights.tensors());
  for (const auto& [parameter, tensor] : match.expected) {
    if (tensor == nullptr) {
      differences.missing.push_back(parameter->name);
    } else if (tensor->shape != parameter->shape) {
      differences.mismatched.push_back(
          error_message(parameter->name, "", to_string(parameter->shape), to_string(tensor->shape)));
    }
  }
  for (const WeightInfo* tensor : match.unexpected) {
    const bool redundant = names != nullptr && names->is_redundant(weights, *tensor);
    (redundant ? differences.redundant : differences.unexpected).push_back(tensor->name);
  }
  return differences;
}

WeightDifferences compare_weights(std::span<const NamedParameter> parameters, const WeightFile& weights,
                                  const WeightNames* names) {
  return compare_weights(specs_of(parameters), weights, names);
}

std::string describe(const WeightDifferences& found) {
  std::string text;
  const auto add = [&](std::size_t count, const char* kind) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  };
  add(found.missing.size(), "missing");
  add(found.unexpected.size(), "unexpected");
  add(found.mismatched.size(), "of another shape");
  return text.empty() ? "none" : text;
}

std::string list(const WeightDifferences& found) {
  return describe(found) + lines("missing: ", found.missing) + lines("unexpected: ", found.unexpected) +
         lines("", found.mismatched);
}

}  // namespace moh
