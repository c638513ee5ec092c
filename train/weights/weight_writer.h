#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/checkpoint/manifest.h"
#include "train/formats/weight_file.h"

namespace moh {

/// A tensor on its way from one file to another.
struct TensorToWrite {
  const WeightInfo* tensor;
  std::string_view stored_dtype;  ///< what it becomes; see element_conversion.h
};

/// Hears of each block's bytes, as they are written.
using WriteProgress = FunctionRef<void(std::uint64_t bytes)>;

/// Bytes of its elements once written. Throws ValueError for what safetensors cannot store.
std::uint64_t written_bytes(const TensorToWrite& tensor);

/// The type of most of the bytes of tensors, at least one.
std::string_view main_type(std::span<const TensorToWrite> tensors);

/// Hands a safetensors file with these tensors of `source` to `sink`, piece by piece: no more than a block of
/// elements is in memory. What `source` says of itself goes along. Returns its size and checksums; the name
/// is left empty. Throws CheckpointError for what cannot be read or converted, ValueError for what the format
/// cannot store.
ManifestFile stream_safetensors(const WeightFile& source, std::span<const TensorToWrite> tensors,
                                FunctionRef<void(std::span<const std::byte>)> sink, WriteProgress progress);

/// Writes a new file, synced. Throws StorageError, too.
ManifestFile write_safetensors_file(const std::filesystem::path& path, const WeightFile& source,
                                    std::span<const TensorToWrite> tensors, WriteProgress progress);

/// Writes a model into a folder as the Hugging Face libraries expect it: model.safetensors, or, where
/// `shard_bytes` is not 0 and the elements take more, model-00001-of-0000N.safetensors with an index. Tensors
/// keep their order; one larger than `shard_bytes` has a file of its own. Returns the number of tensor files.
std::size_t write_model_files(const std::filesystem::path& folder, const WeightFile& source,
                              std::span<const TensorToWrite> tensors, std::uint64_t shard_bytes,
                              WriteProgress progress);

}  // namespace moh
