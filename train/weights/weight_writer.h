#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "train/base/formats/weight_file.h"
#include "train/weights/checkpoint/manifest.h"
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

/// In a checkpoint that was converted from a Hugging Face folder: those companions from there that a
/// checkpoint does not carry itself. The name begins with a dot, as they are not part of the checkpoint
/// (train/weights/checkpoint/manifest.h).
inline constexpr std::string_view kCompanionFolder = ".companions";

/// The companions of a model, by name: files that users of the model need besides its weights: those of the
/// tokenizer, kGenerationConfig, the licence. They lie beside its config.json, or in its checkpoint. Throws
/// CheckpointError.
using Companions = std::map<std::string, std::filesystem::path, std::less<>>;
Companions companions(const ModelLocation& source);

/// Copies and syncs companions. Throws CheckpointError, also if they exceed 1 GiB in total, StorageError.
void copy_companions(const Companions& files, const std::filesystem::path& folder);

/// (name, contents) of the companions that a checkpoint carries (is_carried_file). Throws CheckpointError.
std::vector<std::pair<std::string, std::string>> read_carried(const Companions& files);

}  // namespace moh
