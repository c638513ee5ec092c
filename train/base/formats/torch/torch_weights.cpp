#include "train/base/formats/torch/torch_weights.h"

#include <algorithm>
#include <utility>

#include "train/base/formats/torch/torch_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Prefixes that wrappers add to all names (DistributedDataParallel, Lightning's of DeepSpeed), and inside
/// names, if they wrap a part of the model (torch.compile, FullyShardedDataParallel, activation
/// checkpointing).
constexpr std::string_view kOuterWrappers[] = {"module.", "_forward_module."};
constexpr std::string_view kWrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                          "_checkpoint_wrapped_module."};

std::string without_inner_wrappers(std::string_view name) {
  std::string plain;
  for (std::size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1)) {
    const std::string_view part = name.substr(0, dot + 1);
    if (part.size() == name.size() || std::ranges::count(kWrappers, part) == 0) plain += part;
  }
  return plain += name;
}

/// The model's names without those prefixes.
std::vector<std::string> plain_names(const TorchModel& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.tensors) names.push_back(without_inner_wrappers(name));
  std::size_t length = 0;  // of the common prefixes
  const auto in_all = [&](std::string_view wrapper) {
    return std::ranges::all_of(names, [&](std::string_view name) {
      const std::string_view rest = name.substr(length);
      return rest.size() > wrapper.size() && rest.starts_with(wrapper);
    });
  };
  auto found = std::ranges::find_if(kOuterWrappers, in_all);
  for (; found != std::ranges::end(kOuterWrappers); found = std::ranges::find_if(kOuterWrappers, in_all))
    length += found->size();
  for (std::string& name : names) name.erase(0, length);
  return names;
}

class TorchWeights final : public WeightFile {
 public:
  TorchWeights(const std::filesystem::path& path, std::string_view part)
      : file_(path), model_(file_.choose_model(part)) {
    for (const auto& [name, class_name] : model_.unread) {
      file_.fail("tensor " + printable(name), "a tensor", "an object of " + printable(class_name),
                 "in Python, turn it into a plain tensor and save the file again");
    }
    metadata_["part"] = model_.part;
    const std::vector<std::string> names = plain_names(model_);
    std::vector<WeightInfo> infos;
    for (const auto& [name, tensor] : model_.tensors) {
      infos.push_back(info_of(names[infos.size()], *tensor));
      infos.back().place = infos.size() - 1;
    }
    if (const WeightInfo* twice = set_tensors(std::move(infos)))
      file_.fail("tensor " + printable(twice->name), "this name once, without those of wrappers", "it twice");
  }

  const std::filesystem::path& path() const override { return file_.path(); }
  std::string format() const override { return file_.is_old_format() ? "PyTorch before 1.6" : "PyTorch"; }
  std::vector<WeightSection> other_contents() const override { return file_.describe(); }
  std::vector<std::string> parts() const override {
    std::vector<std::string> parts;
    for (const TorchModel& model : file_.models()) parts.push_back(printable(model.part));
    return parts.size() > 1 ? parts : std::vector<std::string>();
  }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    file_.read(*model_.tensors.at(tensor.place).second, offset, to);
  }

 private:
  WeightInfo info_of(const std::string& name, const TorchTensor& tensor) const {
    if (tensor.dtype->name.empty()) {
      file_.fail("tensor " + printable(name), "a dtype that safetensors files have too",
                 "torch." + std::string(tensor.dtype->torch),
                 "in Python, convert it and save the file again");
    }
    if (tensor.shape.size() > Shape::kMaxRank) {
      file_.fail("tensor " + printable(name), "at most " + std::to_string(Shape::kMaxRank) + " axes",
                 std::to_string(tensor.shape.size()));
    }
    return {name, tensor.dtype->name, Shape(std::span<const std::int64_t>(tensor.shape)), tensor.bytes()};
  }

  TorchFile file_;
  const TorchModel& model_;  // of the file; WeightInfo::place is an index into its tensors
};

}  // namespace

std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path, const std::string& part) {
  return std::make_unique<TorchWeights>(path, part);
}

}  // namespace moh
