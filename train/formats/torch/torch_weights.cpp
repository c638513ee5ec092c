#include "train/formats/torch/torch_weights.h"

#include <algorithm>
#include <utility>

#include "train/formats/torch/torch_file.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kWrappers[] = {"module.", "_orig_mod."};

/// The length of what wrappers of a model have put in front of all its names.
std::size_t wrapper_length(const TorchModel& model) {
  std::size_t length = 0;
  const auto in_all = [&](std::string_view wrapper) {
    return std::ranges::all_of(model.tensors, [&](const auto& named) {
      const std::string_view rest = std::string_view(named.first).substr(length);
      return rest.size() > wrapper.size() && rest.starts_with(wrapper);
    });
  };
  while (true) {
    const auto found = std::ranges::find_if(kWrappers, in_all);
    if (found == std::ranges::end(kWrappers)) return length;
    length += found->size();
  }
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
    const std::size_t skip = wrapper_length(model_);
    std::vector<WeightInfo> infos;
    for (const auto& [name, tensor] : model_.tensors) {
      infos.push_back(info_of(name.substr(skip), *tensor));
      infos.back().place = infos.size() - 1;
    }
    set_tensors(std::move(infos));
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
  const TorchModel& model_;  // of the file; WeightInfo::place is an index of its tensors
};

}  // namespace

std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path, const std::string& part) {
  return std::make_unique<TorchWeights>(path, part);
}

}  // namespace moh
