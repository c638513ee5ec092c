#include <span>
#include <string>
#include <string_view>

#include "train/weights/fold_names.h"
#include "train/weights/model_source.h"

namespace moh {

namespace {

std::string lines(std::string_view kind, std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : fold_lines(names)) text.append("\n  ").append(kind).append(name);
  return text;
}

}  // namespace

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
