#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/base/formats/torch/python_values.h"
#include "train/base/formats/torch/torch_container.h"
#include "train/base/formats/torch/torch_tensor.h"

namespace moh {

enum class TorchKind : std::uint8_t {
  kPlain,  ///< None, a bool, a number or a text
  kTensor,
  kEmpty,   ///< a container without items
  kOpaque,  ///< an object that moh does not know, or bytes
};

/// A value that contains no others.
struct TorchLeaf {
  std::string path;  ///< "ema/blocks.0.attn.qkv.weight", "args/ckpt_every", "opt/param_groups/0/lr"
  TorchKind kind = TorchKind::kPlain;
  TorchPlain value;  ///< of kPlain; of kOpaque the name of its class, of kEmpty "{}" or "[]"
  const TorchTensor* tensor = nullptr;  ///< of kTensor
};

/// A dict of named tensors: the state_dict() of a model. Or a whole torch.nn.Module, which is not read.
struct TorchModel {
  std::string part;  ///< its path: "ema", "checkpoint/model"; "." if the file's object is the dict itself
  std::vector<std::pair<std::string, const TorchTensor*>> tensors = {};  ///< in the file's order
  /// (name, class) of unknown objects that may be tensors.
  std::vector<std::pair<std::string, std::string>> unread = {};
  std::string module_class = {};  ///< of a torch.nn.Module, which has no tensors here
};

/// The contents of a file's object.
struct TorchValues {
  std::unordered_map<PickleId, TorchTensor> tensors;  ///< by value id: each is read once
  std::vector<TorchLeaf> leaves;
  std::vector<TorchModel> models;
};

inline constexpr std::size_t kMaxTorchLeaves = 1 << 20;
inline constexpr std::size_t kMaxTorchPathBytes = 1 << 16;
inline constexpr std::size_t kMaxAllTorchPathBytes = 64 << 20;  // of leaves

/// Finds the leaves and models in the object of a file of torch.save, and checks all its tensors.
///
/// Leaves are all values without children, in the file's order; a leaf that several containers share occurs
/// once for each. Models are dicts with text keys that contain tensors directly, reachable through dicts and
/// attributes of objects, except those of optimizers and of a torch.nn.Module, which is listed beside them.
///
/// `contents` must outlive the result. Throws the file's kind of error for tensors that are not sound, and
/// for more values, names and nesting than models have, so that time and memory are bounded.
TorchValues find_torch_values(const InputFile& file, const TorchContents& contents);

}  // namespace moh
