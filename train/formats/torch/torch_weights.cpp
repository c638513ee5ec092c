#include <algorithm>
#include <map>
#include <utility>

#include "train/formats/safetensors_dtype.h"
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
    for (const auto& [name, tensor] : model.tensors) add(name.substr(skip), *tensor);
  }

  const std::filesystem::path& path() const override { return file_.path(); }
  std::string format() const override { return file_.is_old_format() ? "PyTorch before 1.6" : "PyTorch"; }
  std::span<const WeightInfo> tensors() const override { return infos_; }
  const Metadata& metadata() const override { return metadata_; }
  std::vector<WeightSection> other_contents() const override { return file_.describe(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const auto found = by_name_.find(tensor.name);
    if (found == by_name_.end())
      file_.fail("tensor " + printable(tensor.name), "one of this file", "another");
    file_.read(*found->second, offset, to);
  }

 private:
  void add(const std::string& name, const TorchTensor& tensor) {
    const SafetensorsDType* dtype = find_safetensors_dtype(tensor.dtype->name);
    if (dtype == nullptr) {
      file_.fail("tensor " + printable(name), "a dtype that safetensors files have too",
                 "torch." + std::string(tensor.dtype->torch),
                 "in Python, convert it and save the file again");
    }
    if (tensor.shape.size() > Shape::kMaxRank) {
      file_.fail("tensor " + printable(name), "at most " + std::to_string(Shape::kMaxRank) + " axes",
                 std::to_string(tensor.shape.size()));
    }
    infos_.push_back({name, dtype->name, Shape(std::span<const std::int64_t>(tensor.shape)), tensor.bytes()});
    by_name_[name] = &tensor;
  }

  TorchFile file_;
  std::vector<WeightInfo> infos_;
  std::map<std::string, const TorchTensor*, std::less<>> by_name_;
  Metadata metadata_;
};

}  // namespace

std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path, const std::string& part) {
  return std::make_unique<TorchWeights>(path, part);
}

}  // namespace moh
