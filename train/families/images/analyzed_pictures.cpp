#include "train/families/images/analyzed_pictures.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

using Open = FunctionRef<LabelledSourcePtr(const std::vector<std::string>& paths)>;

/// Pictures of one source.
struct Group {
  std::string name;
  LabelledSourcePtr pictures;
  std::vector<std::int64_t> indices;
};

/// A group for each class that has pictures.
std::vector<Group> classes_of(const LabelledSourcePtr& pictures) {
  const std::vector<std::string>& names = pictures->class_names();
  std::vector<Group> groups;
  for (const std::string& name : names) groups.push_back({name, pictures, {}});
  for (std::int64_t i = 0; i < pictures->size(); ++i)
    groups[static_cast<std::size_t>(pictures->label(i))].indices.push_back(i);
  std::erase_if(groups, [](const Group& group) { return group.indices.empty(); });
  return groups;
}

std::vector<Group> groups_of(std::span<const AnalyzedFiles> files, Open open,
                             FunctionRef<LabelledSourcePtr()> held_out,
                             std::vector<std::pair<std::string, std::string>>& contents) {
  const auto noted = [&](const std::string& name, LabelledSourcePtr pictures) {
    contents.emplace_back(name, pictures->describe_contents());
    return pictures;
  };
  if (files.empty()) return classes_of(noted("data.validation", held_out()));
  if (files.size() == 1) return classes_of(noted(files[0].name, open(files[0].paths)));
  std::vector<Group> groups;
  for (const AnalyzedFiles& each : files) {
    Group& group = groups.emplace_back(Group{each.name, noted(each.name, open(each.paths)), {}});
    for (std::int64_t i = 0; i < group.pictures->size(); ++i) group.indices.push_back(i);
  }
  return groups;
}

/// At most `most` of the indices, spread evenly.
std::vector<std::int64_t> spread(const std::vector<std::int64_t>& indices, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(indices.size()), taken = std::min(count, most);
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < taken; ++i)
    found.push_back(indices[static_cast<std::size_t>(i * count / taken)]);
  return found;
}

}  // namespace

std::vector<AnalyzedPicture> analyzed_pictures(std::span<const AnalyzedFiles> files, Open open,
                                               FunctionRef<LabelledSourcePtr()> held_out, std::int64_t most,
                                               AnalysisInputs& inputs) {
  std::vector<AnalyzedPicture> items;
  for (const Group& group : groups_of(files, open, held_out, inputs.contents)) {
    const std::vector<std::int64_t> taken = spread(group.indices, most);
    const auto source = static_cast<std::int32_t>(inputs.sources.size());
    for (const std::int64_t index : taken) items.push_back({group.pictures, index, source});
    inputs.sources.push_back({group.name, std::ssize(taken), std::ssize(group.indices)});
  }
  return items;
}

void refuse_text_options(const AnalyzeOptions& options) {
  if (options.text.empty() && options.tokens.empty()) return;
  throw ValueError(error_message("analyze", "--text and --token", "none for a model of images", "some"));
}

}  // namespace moh
