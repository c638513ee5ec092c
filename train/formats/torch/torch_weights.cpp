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
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      const auto begins = [&](const auto& named) {
        return named.first.size() > length + wrapper.size() &&
               std::string_view(named.first).substr(length).starts_with(wrapper);
      };
      if (!std::ranges::all_of(model.tensors, begins)) continue;
      length += wrapper.size();
      found = true;
    }
  }
  return length;
}

class TorchWeights final : public WeightFile {
 public:
  TorchWeights(const std::filesystem::path& path, std::string_view part) : file_(path) {
    const TorchModel& model = file_.choose_model(part);
    for (const auto& [name, class_name] : model.unread) {
      file_.fail("tensor " + printable(name), "a tensor", "an object of " + printable(class_name),
                 "in Python, turn it into a plain tensor and save the file again");
    }
    metadata_["part"] = model.part;
    const std::size_t skip = wrapper_length(model);
    std::vector<WeightInfo> infos;
    for (const auto& [name, tensor] : model.tensors) infos.push_back(add(name.substr(skip), *tensor));
    set_tensors(std::move(infos));
  }

  const std::filesystem::path& path() const override { return file_.path(); }
  std::string format() const override { return file_.is_old_format() ? "PyTorch before 1.6" : "PyTorch"; }
  std::vector<WeightSection> other_contents() const override { return file_.describe(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    file_.read(*tensors_.at(tensor.place), offset, to);
  }

 private:
  WeightInfo add(const std::string& name, const TorchTensor& tensor) {
    if (tensor.dtype->name.empty()) {
      file_.fail("tensor " + printable(name), "a dtype that safetensors files have too",
                 "torch." + std::string(tensor.dtype->torch),
                 "in Python, convert it and save the file again");
    }
    if (tensor.shape.size() > Shape::kMaxRank) {
      file_.fail("tensor " + printable(name), "at most " + std::to_string(Shape::kMaxRank) + " axes",
                 std::to_string(tensor.shape.size()));
    }
    tensors_.push_back(&tensor);
    return {name, tensor.dtype->name, Shape(std::span<const std::int64_t>(tensor.shape)), tensor.bytes(),
            tensors_.size() - 1};
  }

  TorchFile file_;
  std::vector<const TorchTensor*> tensors_;  // by WeightInfo::place
};

}  // namespace

std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path, const std::string& part) {
  return std::make_unique<TorchWeights>(path, part);
}

}  // namespace moh
