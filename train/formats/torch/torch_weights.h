#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "train/formats/weight_file.h"

namespace moh {

/// The tensors of one model in a PyTorch file; `part` as for TorchFile::choose_model(). A prefix "module."
/// (DistributedDataParallel) or "_orig_mod." (torch.compile) that all names share is taken off, as often as
/// there is one. Throws CheckpointError, also for a tensor of a dtype without a name in safetensors or with
/// more than Shape::kMaxRank axes, and for an object among the tensors that may be one.
std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path,
                                               const std::string& part = {});

}  // namespace moh
