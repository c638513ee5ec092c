#include "train/weights/compare_weights.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/printable.h"
#include "train/weights/fold_names.h"
#include "train/weights/foreign_formats.h"

namespace moh {

namespace {

struct Match {
  /// Every expected tensor, in order, with the found tensor of the same name; null if there is none.
  std::vector<std::pair<const WeightInfo*, const WeightInfo*>> expected;
  /// Found tensors that are not expected, in order.
  std::vector<const WeightInfo*> unexpected;
};

Match match_names(std::span<const WeightInfo> expected, std::span<const WeightInfo> found) {
  Match match;
  std::unordered_map<std::string_view, const WeightInfo*> by_name;
  for (const WeightInfo& tensor : found) by_name.emplace(tensor.name, &tensor);
  for (const WeightInfo& tensor : expected) {
    const auto same = by_name.find(tensor.name);
    match.expected.emplace_back(&tensor, same == by_name.end() ? nullptr : same->second);
  }
  for (const WeightInfo& tensor : expected) by_name.erase(tensor.name);
  for (const WeightInfo& tensor : found) {
    if (by_name.contains(tensor.name)) match.unexpected.push_back(&tensor);
  }
  return match;
}

/// A line for each name, or for each group of fold_lines().
std::string lines(std::string_view kind, std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : fold_lines(names)) text.append("\n  ").append(kind).append(name);
  return text;
}

/// The prefix that the file's names have before the model's: "net." for "norm" and "net.norm".
std::string prefix_in_file(const WeightDifferences& differences) {
  const std::string& first = differences.missing.front();
  for (const std::string& name : differences.unexpected) {
    if (name.ends_with("." + first)) return name.substr(0, name.size() - first.size());
  }
  return {};
}

/// The reason if most of the model's names occur in the file with a common prefix (it may lack the routers').
std::string prefix_reason(const WeightDifferences& differences) {
  const std::string prefix = prefix_in_file(differences);
  if (prefix.empty()) return {};
  const auto has_prefix = [&](const std::string& name) { return name.starts_with(prefix); };
  const bool all = std::ranges::all_of(differences.unexpected, has_prefix);
  const std::unordered_set<std::string_view> names(differences.unexpected.begin(),
                                                   differences.unexpected.end());
  const auto found = std::ranges::count_if(
      differences.missing, [&](const std::string& name) { return names.contains(prefix + name); });
  if (2 * static_cast<std::size_t>(found) <= differences.missing.size()) return {};
  const std::string text = printable(prefix);
  return (all ? "all names in the file have the prefix '"
              : "the model's names are in the file with the prefix '") +
         text + "'; remove it in Python: {k.removeprefix('" + text + "'): v for k, v in weights.items()" +
         (all ? "}" : " if k.startswith('" + text + "')}");
}

/// The reason for missing tensors, if known.
std::string reason_of(const WeightDifferences& differences, const WeightFile& weights) {
  if (const ForeignFormat* format = foreign_names(weights.tensors()))
    return "by its names this is " + std::string(format->name) + "; " + std::string(format->fix);
  return prefix_reason(differences);
}

/// "[512, 256] float32", for a dtype of moh.
std::string shape_and_dtype(const WeightInfo& tensor) {
  const DType dtype = *find_safetensors_dtype(tensor.stored_dtype)->loads_as;
  return to_string(tensor.shape) + " " + std::string(dtype_name(dtype));
}

}  // namespace

WeightDifferences compare_weights(std::span<const WeightInfo> parameters, const WeightFile& weights,
                                  const ParameterNames* names) {
  WeightDifferences differences;
  const Match match = match_names(parameters, weights.tensors());
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
  if (!differences.missing.empty()) differences.reason = reason_of(differences, weights);
  return differences;
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
  const std::string names = found.reason.empty()
                                ? lines("missing: ", found.missing) + lines("unexpected: ", found.unexpected)
                                : "\n  " + found.reason;
  return describe(found) + names + lines("", found.mismatched);
}

void check_matches(std::string_view where, std::span<const WeightInfo> expected,
                   std::span<const WeightInfo> found) {
  Match match = match_names(expected, found);
  std::vector<std::string> found_wrong;
  for (const auto& [tensor, other] : match.expected) {
    if (other == nullptr || other->shape != tensor->shape || other->stored_dtype != tensor->stored_dtype) {
      found_wrong.push_back(error_message(tensor->name, "", shape_and_dtype(*tensor),
                                          other ? shape_and_dtype(*other) : "no tensor of this name"));
    }
  }
  std::ranges::sort(match.unexpected, std::less<>(), &WeightInfo::name);
  for (const WeightInfo* tensor : match.unexpected) {
    found_wrong.push_back(
        error_message(printable(tensor->name), "", "no tensor of this name", shape_and_dtype(*tensor)));
  }
  if (found_wrong.empty()) return;
  const std::string message(where);
  if (found_wrong.size() == 1) throw CheckpointError(message + ": " + found_wrong.front());
  throw CheckpointError(message + ": " + std::to_string(found_wrong.size()) +
                        " tensors differ from the model's:" + lines("", found_wrong));
}

}  // namespace moh
