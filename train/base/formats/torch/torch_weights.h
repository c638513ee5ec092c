#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "train/base/formats/weight_file.h"

namespace moh {

/// Opens the tensors of one model in a PyTorch file; `part` as for TorchFile::choose_model(). Names are those
/// of the model without wrappers: "_orig_mod." (torch.compile), "_fsdp_wrapped_module." (FSDP) and
/// "_checkpoint_wrapped_module." are removed anywhere, "module." (DistributedDataParallel) and
/// "_forward_module." at the beginning, if all names have it. Throws CheckpointError, also for a tensor of a
/// dtype without a name in safetensors or with more than Shape::kMaxRank axes, and for unknown objects among
/// the tensors that may be tensors.
std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path,
                                               const std::string& part = {});

}  // namespace moh
