#pragma once

#include <cstdint>
#include <string_view>

namespace moh {

/// An element type of PyTorch.
struct TorchDType {
  std::string_view torch;    ///< "float32"
  std::string_view storage;  ///< "FloatStorage"; empty for types that came after typed storages
  std::string_view name;  ///< in the words of safetensors; for types that it has not, a name of the same kind
  std::uint64_t bytes;
};

/// The type of the elements of a storage class, "torch.FloatStorage" or "torch.cuda.FloatStorage"; nullptr
/// for another class.
const TorchDType* find_torch_storage(std::string_view class_name);

/// The type of that name, "torch.float32", or nullptr.
const TorchDType* find_torch_dtype(std::string_view name);

/// Whether `class_name` is a storage of bytes, whose tensors say what they hold.
bool is_untyped_storage(std::string_view class_name);

}  // namespace moh
