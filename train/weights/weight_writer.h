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

// Tensors to write are given as they will be listed in the file: names of `source`, each with its output type
// (stored_dtype.h) and its size in that type.

/// The type with the most bytes among the tensors, which must not be empty.
std::string_view main_type(std::span<const WeightInfo> tensors);

/// Passes a safetensors file with these tensors of `source`, and its metadata, to `sink` piece by piece, with
/// one block of elements in memory. Returns its size and checksums; the name is left empty. Throws
/// CheckpointError for tensors that cannot be read, converted or stored in this format.
ManifestFile stream_safetensors(const WeightFile& source, std::span<const WeightInfo> tensors,
                                FunctionRef<void(std::span<const std::byte>)> sink, WriteProgress progress);

/// Writes and syncs such a file. Throws StorageError, too.
ManifestFile write_safetensors_file(const std::filesystem::path& path, const WeightFile& source,
                                    std::span<const WeightInfo> tensors, WriteProgress progress);

/// Writes a model to a folder in the layout of the Hugging Face libraries: model.safetensors, or, if
/// `shard_bytes` is not 0 and the elements take more, model-00001-of-0000N.safetensors with an index. Tensors
/// keep their order; one larger than `shard_bytes` gets its own file. Returns the number of tensor files.
std::size_t write_model_files(const std::filesystem::path& folder, const WeightFile& source,
                              std::span<const WeightInfo> tensors, std::uint64_t shard_bytes,
                              WriteProgress progress);

/// main_type() as named in PyTorch and in config.json: "bfloat16". Throws CheckpointError, naming `source`,
/// for a type that config.json cannot have.
std::string_view torch_dtype_name(const ModelLocation& source, std::span<const WeightInfo> tensors);

/// The file that says which tokens begin, end and pad a text, and how transformers continues one.
inline constexpr std::string_view kGenerationConfig = "generation_config.json";

/// In a checkpoint that was converted from a Hugging Face folder: the companions from that folder. The name
/// begins with a dot, as they are not part of the checkpoint (train/checkpoint/manifest.h).
inline constexpr std::string_view kCompanionFolder = ".companions";

/// The folder of a model's companions: that of its config.json, or kCompanionFolder in that of its
/// checkpoint. Empty if the model has no configuration.
std::filesystem::path companion_folder(const ModelLocation& source);

/// The names of the companions of a model: files that moh does not read but users of the model need: those of
/// the tokenizer, kGenerationConfig, the licence. Throws CheckpointError.
std::set<std::string> companions(const ModelLocation& source);

/// Copies and syncs the companions. Throws CheckpointError, also if they exceed 1 GiB in total, StorageError.
void copy_companions(const ModelLocation& source, const std::filesystem::path& folder);

}  // namespace moh
