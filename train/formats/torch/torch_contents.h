#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "train/formats/torch/torch_container.h"
#include "train/formats/torch/torch_file.h"

namespace moh {

/// Tensors by the values that stand for them: one that is reached on several ways is read once.
using TorchTensors = std::unordered_map<PickleId, TorchTensor>;

/// The inside of a TorchFile.
struct TorchFile::Contents {
  explicit Contents(const std::filesystem::path& path, InputKind kind) : file(path, kind) {}

  InputFile file;
  std::unique_ptr<TorchContents> saved;
  TorchTensors tensors;
  std::vector<TorchLeaf> leaves;
  std::vector<TorchModel> models;

  std::mutex reading;  // guards what follows
  std::map<const TorchStorage*, bool> verified;
  TensorGather gather;
};

/// All values without others in them, with their paths from the object at the top. Reads and checks the
/// tensors among them.
std::vector<TorchLeaf> find_leaves(const InputFile& file, const TorchContents& saved, TorchTensors& tensors);

/// The models in it; `tensors` are those that find_leaves() has found.
std::vector<TorchModel> find_models(const InputFile& file, const PickleTree& tree,
                                    const TorchTensors& tensors);

}  // namespace moh
