#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "train/checkpoint/manifest.h"
#include "train/checkpoint/stored_checkpoint.h"
#include "train/comm/communicator.h"
#include "train/optim/parameter_shards.h"

namespace moh {

/// Writes the optimiser state of this process, `state`, into the folder that process 0 names, as all others
/// do (write_optimizer_shard). Returns the entries of all files, in the order of the ranks. Parts without
/// elements are not written. A collective; throws StorageError.
std::vector<ManifestFile> write_own_shard(Communicator& processes, const std::filesystem::path& folder,
                                          std::span<const TensorPart> state);

/// Reads parts of tensors from a checkpoint whose files have each tensor whole, or as many parts of it, one
/// after the other in the order of the files: what any number of processes wrote, any number reads.
/// Everything is verified and compared before anything is changed. Tensors that no part is of are ignored.
/// Throws CheckpointError for a tensor that is not there, or of another size or type; `where` begins its
/// message.
void load_parts(std::string_view where, std::span<const StoredTensors> from, std::span<const TensorPart> to);

}  // namespace moh
