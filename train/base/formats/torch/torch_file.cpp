#include "train/base/formats/torch/torch_file.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

// In order of preference. sample.py of DiT and MoH-DiT loads the first, main.py of TransNeXt and MoH-ViT the
// second.
constexpr std::string_view kUsualParts[] = {
    "ema",     "model",  "state_dict", "module",         "model_state_dict", "net", "network",
    "weights", "params", "model_ema",  "state_dict_ema", "ema_state_dict",   "."};

constexpr std::string_view kStateDict = "a dict of tensors, such as a model's state_dict()";

std::string_view last_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// The model with that path, or else the only one whose path ends in that name.
const TorchModel* find_model(std::span<const TorchModel> models, std::string_view part) {
  const auto exact = std::ranges::find(models, part, &TorchModel::part);
  if (exact != models.end()) return &*exact;
  const auto named = [&](const TorchModel& model) { return last_name(model.part) == part; };
  if (std::ranges::count_if(models, named) != 1) return nullptr;
  return &*std::ranges::find_if(models, named);
}

std::string list_parts(std::span<const TorchModel> models) {
  std::string list;
  for (std::size_t i = 0; i < models.size() && i < 10; ++i) {
    list += (i == 0 ? "" : ", ") + printable(models[i].part);
  }
  return models.size() > 10 ? list + ", ..." : list;
}

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

WeightSection model_section(std::span<const TorchModel> models) {
  WeightSection section{"models", {}};
  for (const TorchModel& model : models) {
    if (!model.module_class.empty()) {
      section.rows.emplace_back(printable(model.part), "a torch.nn.Module, " + printable(model.module_class));
      continue;
    }
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : model.tensors) bytes += tensor->bytes();
    std::string text = counted(model.tensors.size(), "tensor") + ", " + std::to_string(bytes) + " bytes";
    if (!model.unread.empty()) text += ", and " + counted(model.unread.size(), "object") + " that may be";
    section.rows.emplace_back(printable(model.part), text);
  }
  return section;
}

/// "opt/param_groups/0/betas" for the plain value "opt/param_groups/0/betas/1"; nothing for one in no list.
std::optional<std::string_view> list_of(const TorchLeaf& leaf) {
  const std::string_view path = leaf.path, name = last_name(path);
  const bool is_index = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  if (leaf.kind != TorchKind::kPlain || !is_index) return std::nullopt;
  return path.substr(0, path.size() - std::min(path.size(), name.size() + 1));
}

/// A section of the plain values; the items of a list share a row.
WeightSection value_section(std::span<const TorchLeaf> leaves) {
  constexpr std::size_t kLongList = 101;  // bytes
  WeightSection section{"values", {}};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const TorchLeaf& leaf = leaves[i];
    const auto list = list_of(leaf);
    if (list) {
      std::string text = "[" + to_string(leaf.value);
      std::size_t count = 1;
      for (; i + 1 < leaves.size() && list_of(leaves[i + 1]) == list; ++i, ++count) {
        if (text.size() < kLongList) text += ", " + to_string(leaves[i + 1].value);
      }
      text += text.size() < kLongList ? "]" : ", ...] (" + counted(count, "item") + ")";
      section.rows.emplace_back(printable(*list), text);
    } else if (leaf.kind == TorchKind::kPlain) {
      section.rows.emplace_back(printable(leaf.path), to_string(leaf.value));
    } else if (leaf.kind == TorchKind::kEmpty) {
      section.rows.emplace_back(printable(leaf.path), std::get<std::string_view>(leaf.value));
    }
  }
  return section;
}

/// A section of the tensors outside of models, counted by the first name of their paths.
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

TorchFile::TorchFile(const std::filesystem::path& path, InputKind kind)
    : file_(path, kind),
      contents_(read_torch_contents(file_)),
      values_(find_torch_values(file_, contents_)) {}

const TorchLeaf* TorchFile::find(std::string_view path) const {
  const auto found = std::ranges::find(values_.leaves, path, &TorchLeaf::path);
  return found == values_.leaves.end() ? nullptr : &*found;
}

const TorchModel& TorchFile::no_module(const TorchModel& model) const {
  if (model.module_class.empty()) return model;
  fail("model " + printable(model.part), kStateDict,
       "a whole torch.nn.Module, " + printable(model.module_class),
       "in Python, where its class is: model = torch.load(FILE, weights_only=False), if you trust the file, "
       "then torch.save(model.state_dict(), NEW)");
}

const TorchModel& TorchFile::choose_model(std::string_view part) const {
  const std::span<const TorchModel> all = models();
  if (all.empty()) {
    fail("", kStateDict, "none", "in Python, save the state_dict() of the model with torch.save");
  }
  if (!part.empty()) {
    const TorchModel* named = find_model(all, part);
    if (named == nullptr)
      fail("part " + printable(part), "one of " + list_parts(all), "none or several of it");
    return no_module(*named);
  }
  if (all.size() == 1) return no_module(all.front());
  for (const std::string_view usual : kUsualParts) {
    if (const TorchModel* found = find_model(all, usual)) return no_module(*found);
  }
  fail("models", "one, or one with a usual name", list_parts(all), "say which part to take");
}

std::vector<WeightSection> TorchFile::describe() const {
  std::vector<WeightSection> sections = {model_section(models()), value_section(leaves()),
                                         other_tensors(leaves(), models()), opaque_section(leaves())};
  std::erase_if(sections, [](const WeightSection& section) { return section.rows.empty(); });
  return sections;
}

void TorchFile::read(const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  MOH_CHECK(offset <= tensor.bytes() && to.size() <= tensor.bytes() - offset, "a range within the tensor");
  if (to.empty()) return;
  const std::lock_guard lock(reading_);
  if (!verified_.contains(tensor.storage)) {
    if (tensor.storage->entry) verify_crc32(file_, *tensor.storage->entry);
    verified_.insert(tensor.storage);
  }
  if (tensor.is_contiguous()) {
    file_.read(tensor.begin + offset, to, "storage " + printable(tensor.storage_key));
  } else {
    gather_.read(file_, tensor, offset, to);
  }
}

bool looks_like_torch_file(const std::filesystem::path& path) {
  const InputFile file(path, InputKind::kCheckpoint);
  return has_torch_magic(file);
}

}  // namespace moh
