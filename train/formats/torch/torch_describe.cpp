#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>

#include "train/formats/torch/torch_file.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

WeightSection model_section(std::span<const TorchModel> models) {
  WeightSection section{"models", {}};
  for (const TorchModel& model : models) {
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : model.tensors) bytes += tensor->bytes();
    std::string text = counted(model.tensors.size(), "tensor") + ", " + std::to_string(bytes) + " bytes";
    if (!model.unread.empty()) text += ", and " + counted(model.unread.size(), "object") + " that may be";
    section.rows.emplace_back(printable(model.part), text);
  }
  return section;
}

/// "opt/param_groups/0/betas" and true for "opt/param_groups/0/betas/1".
std::pair<std::string_view, bool> parent_of_item(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const bool is_index = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  return {slash == std::string_view::npos ? std::string_view() : path.substr(0, slash), is_index};
}

/// Plain values; the items of a list together in one row.
WeightSection value_section(std::span<const TorchLeaf> leaves) {
  constexpr std::size_t kMostBytes = 100;
  WeightSection section{"values", {}};
  for (std::size_t i = 0; i < leaves.size();) {
    if (leaves[i].kind == TorchKind::kEmpty) {
      section.rows.emplace_back(printable(leaves[i].path), std::get<std::string_view>(leaves[i].value));
    }
    if (leaves[i].kind != TorchKind::kPlain) {
      ++i;
      continue;
    }
    const auto [parent, is_item] = parent_of_item(leaves[i].path);
    std::string text = to_string(leaves[i].value);
    std::size_t next = i + 1;
    if (is_item) {
      const auto belongs = [&, parent = parent](const TorchLeaf& leaf) {
        return leaf.kind == TorchKind::kPlain && parent_of_item(leaf.path) == std::pair(parent, true);
      };
      for (; next < leaves.size() && belongs(leaves[next]); ++next) {
        if (text.size() < kMostBytes) text += ", " + to_string(leaves[next].value);
      }
      text = "[" + text + (text.size() < kMostBytes ? "]" : ", ...] (" + counted(next - i, "item") + ")");
    }
    section.rows.emplace_back(printable(is_item ? parent : std::string_view(leaves[i].path)), text);
    i = next;
  }
  return section;
}

/// Tensors that belong to no model, counted by the first name of their paths.
WeightSection other_tensors(std::span<const TorchLeaf> leaves, std::span<const TorchModel> models) {
  std::set<const TorchTensor*> in_models;
  for (const TorchModel& model : models) {
    for (const auto& [name, tensor] : model.tensors) in_models.insert(tensor);
  }
  std::map<std::string_view, std::size_t> counts;
  for (const TorchLeaf& leaf : leaves) {
    if (leaf.kind != TorchKind::kTensor || in_models.contains(leaf.tensor)) continue;
    counts[std::string_view(leaf.path).substr(0, leaf.path.find('/'))] += 1;
  }
  WeightSection section{"other tensors", {}};
  for (const auto& [name, count] : counts)
    section.rows.emplace_back(printable(name), counted(count, "tensor"));
  return section;
}

WeightSection opaque_section(std::span<const TorchLeaf> leaves) {
  WeightSection section{"opaque objects", {}};
  for (const TorchLeaf& leaf : leaves) {
    if (leaf.kind != TorchKind::kOpaque) continue;
    section.rows.emplace_back(printable(leaf.path), printable(std::get<std::string_view>(leaf.value)));
  }
  return section;
}

}  // namespace

std::string to_string(const TorchPlain& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) {
    std::array<char, 32> text;  // the shortest that reads back as the same number has at most 24
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), *number).ptr};
  }
  if (const auto* text = std::get_if<std::string_view>(&value)) return "'" + printable(*text) + "'";
  return "None";
}

std::vector<WeightSection> TorchFile::describe() const {
  std::vector<WeightSection> sections = {model_section(models()), value_section(leaves()),
                                         other_tensors(leaves(), models()), opaque_section(leaves())};
  std::erase_if(sections, [](const WeightSection& section) { return section.rows.empty(); });
  return sections;
}

}  // namespace moh
