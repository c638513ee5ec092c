#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/checkpoint/manifest.h"
#include "train/formats/weight_file.h"
#include "train/weights/locate_model.h"

namespace moh {

/// Hears of each block's bytes, as they are written.
using WriteProgress = FunctionRef<void(std::uint64_t bytes)>;

// Tensors to write are what a file of them will list: names of `source`, each with the type that its elements
// become (stored_dtype.h), and their bytes as that type.

/// The type of most of the bytes of tensors, at least one.
std::string_view main_type(std::span<const WeightInfo> tensors);

/// Hands a safetensors file with these tensors of `source` to `sink`, piece by piece: no more than a block of
/// elements is in memory. What `source` says of itself goes along. Returns its size and checksums; the name
/// is left empty. Throws CheckpointError for what cannot be read, converted or stored in this format.
ManifestFile stream_safetensors(const WeightFile& source, std::span<const WeightInfo> tensors,
                                FunctionRef<void(std::span<const std::byte>)> sink, WriteProgress progress);

/// Writes a new file, synced. Throws StorageError, too.
ManifestFile write_safetensors_file(const std::filesystem::path& path, const WeightFile& source,
                                    std::span<const WeightInfo> tensors, WriteProgress progress);

/// Writes a model into a folder as the Hugging Face libraries expect it: model.safetensors, or, where
/// `shard_bytes` is not 0 and the elements take more, model-00001-of-0000N.safetensors with an index. Tensors
/// keep their order; one larger than `shard_bytes` has a file of its own. Returns the number of tensor files.
std::size_t write_model_files(const std::filesystem::path& folder, const WeightFile& source,
                              std::span<const WeightInfo> tensors, std::uint64_t shard_bytes,
                              WriteProgress progress);

/// The type of most of the tensors' bytes as named in PyTorch, which is what config.json has: "bfloat16".
/// Throws CheckpointError for a type that config.json does not have; `source` is where they come from.
std::string_view torch_dtype_name(const ModelLocation& source, std::span<const WeightInfo> tensors);

/// What says which tokens begin, end and pad a text, and how transformers continues one.
inline constexpr std::string_view kGenerationConfig = "generation_config.json";

/// Of a checkpoint that was converted from a Hugging Face folder: the companions of that folder. The name
/// begins with a dot, as they are no part of the checkpoint (train/checkpoint/manifest.h).
inline constexpr std::string_view kCompanionFolder = ".companions";

/// Where the companions of a model lie: the folder of its config.json, or kCompanionFolder in that of its
/// checkpoint. Empty where nothing describes the model.
std::filesystem::path companion_folder(const ModelLocation& source);

/// The names of the companions of a model: files that moh does not read, but that somebody who gets the model
/// needs: the tokenizer's, kGenerationConfig, the licence. Throws CheckpointError.
std::set<std::string> companions(const ModelLocation& source);

/// Copies them, each synced. Throws CheckpointError, also for more than a gibibyte of them, StorageError.
void copy_companions(const ModelLocation& source, const std::filesystem::path& folder);

}  // namespace moh
