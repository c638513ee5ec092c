#include "train/weights/weight_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/safetensors.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

using Shard = std::vector<WeightInfo>;

/// Throws CheckpointError, naming the source, for what other formats can store and safetensors cannot: names
/// that are not UTF-8.
SafetensorsLayout layout_of(const WeightFile& source, std::span<const WeightInfo> tensors) {
  WeightFile::Metadata metadata = source.metadata();
  metadata["format"] = "pt";  // Hugging Face's readers require this entry
  try {
    return SafetensorsLayout(tensors, metadata);
  } catch (const ValueError& error) {
    throw CheckpointError(source.path().string() + ": cannot become " + error.what());
  }
}

std::vector<Shard> split(std::span<const WeightInfo> tensors, std::uint64_t shard_bytes) {
  std::vector<Shard> shards(1);
  std::uint64_t filled = 0;
  for (const WeightInfo& tensor : tensors) {
    const bool fits = shard_bytes == 0 || tensor.bytes <= shard_bytes - std::min(filled, shard_bytes);
    if (!fits && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += tensor.bytes;
  }
  return shards;
}

/// "model-00001-of-00004.safetensors"; "model.safetensors" for the only one.
std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return kModelFile;
  const auto digits = [](std::size_t number) { return zero_padded(static_cast<std::int64_t>(number), 5); };
  return "model-" + digits(index + 1) + "-of-" + digits(count) + ".safetensors";
}

std::string index_text(std::span<const Shard> shards) {
  nlohmann::json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::json::object()}};
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const WeightInfo& tensor : shards[i]) {
      index["weight_map"][tensor.name] = shard_name(i, shards.size());
      total += tensor.bytes;
    }
  }
  index["metadata"]["total_size"] = total;
  return index.dump(2) + '\n';
}

/// Limit of all companions together. Files of current tokenizers take some 30 MB.
constexpr std::uint64_t kMaxCompanionBytes = std::uint64_t{1} << 30;

/// Limit of a companion that a checkpoint carries.
constexpr std::uint64_t kMaxCarriedBytes = std::uint64_t{256} << 20;

bool is_companion(const std::string& name) {
  return is_carried_file(name) || name == "merges.txt" || name.starts_with("LICENSE") ||
         name.starts_with("USE_POLICY") || name.starts_with("NOTICE");
}

void add_companions(const fs::path& folder, Companions& found) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (it->is_regular_file() && is_companion(name)) found.emplace(name, it->path());
  }
  if (error) throw CheckpointError(error_message(folder.string(), "", "a readable folder", error.message()));
}

/// Subtracts the size of a file from `left`, the bytes that all companions together may still take.
void copy_durably(const fs::path& from, const fs::path& to, std::uint64_t& left) {
  const InputFile source(from, InputKind::kCheckpoint);
  if (source.size() > left) {
    source.fail("size", "at most " + std::to_string(kMaxCompanionBytes) + " bytes of tokenizer and licence",
                std::to_string(source.size()) + " of this file",
                "it is not what its name says; move it elsewhere");
  }
  left -= source.size();
  OutputFile copy(to, source.size());
  const auto read = [&](std::uint64_t offset, std::span<std::byte> block) {
    source.read(offset, block, "contents");
  };
  stream_blocks(source.size(), read, [&](std::span<const std::byte> block) { copy.write(block); });
  copy.sync_and_close();
}

}  // namespace

std::string_view main_type(std::span<const WeightInfo> tensors) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const WeightInfo& tensor : tensors) bytes[tensor.stored_dtype] += tensor.bytes;
  return std::ranges::max_element(bytes, {}, &std::pair<const std::string_view, std::uint64_t>::second)
      ->first;
}

ManifestFile stream_safetensors(const WeightFile& source, std::span<const WeightInfo> tensors,
                                FunctionRef<void(std::span<const std::byte>)> sink, WriteProgress progress) {
  const SafetensorsLayout layout = layout_of(source, tensors);
  const auto elements = [&](std::size_t index, ByteSink to) {
    stream_tensor(source, *source.find(tensors[index].name), tensors[index].stored_dtype, to);
  };
  const SafetensorsChecksums checksums =
      write_safetensors(layout, elements, [&](std::span<const std::byte> bytes) {
        sink(bytes);
        progress(bytes.size());
      });
  ManifestFile written{"", layout.bytes(), checksums.file, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i) written.tensors[tensors[i].name] = checksums.tensors[i];
  return written;
}

ManifestFile write_safetensors_file(const fs::path& path, const WeightFile& source,
                                    std::span<const WeightInfo> tensors, WriteProgress progress) {
  OutputFile file(path, layout_of(source, tensors).bytes());
  ManifestFile written = stream_safetensors(
      source, tensors, [&](std::span<const std::byte> bytes) { file.write(bytes); }, progress);
  file.sync_and_close();
  written.name = path.filename().string();
  return written;
}

std::size_t write_model_files(const fs::path& folder, const WeightFile& source,
                              std::span<const WeightInfo> tensors, std::uint64_t shard_bytes,
                              WriteProgress progress) {
  const std::vector<Shard> shards = split(tensors, shard_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    write_safetensors_file(folder / shard_name(i, shards.size()), source, shards[i], progress);
  }
  if (shards.size() > 1) write_new_file(folder / "model.safetensors.index.json", index_text(shards));
  return shards.size();
}

std::string_view torch_dtype_name(const ModelLocation& source, std::span<const WeightInfo> tensors) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"F32", "float32"}, {"BF16", "bfloat16"}, {"F16", "float16"}, {"F64", "float64"}};
  const std::string_view stored = main_type(tensors);
  for (const auto& [name, in_torch] : kNames) {
    if (name == stored) return in_torch;
  }
  throw CheckpointError(error_message(source.weights.string(), "tensors", "F32, BF16, F16 or F64", stored,
                                      dtype_advice(tensors)));
}

Companions companions(const ModelLocation& source) {
  Companions found;
  if (source.config.empty()) return found;
  const fs::path folder = folder_of(source.config);
  add_companions(folder, found);
  if (!source.is_hf()) add_companions(folder / kCompanionFolder, found);
  return found;
}

void copy_companions(const Companions& files, const fs::path& folder) {
  std::uint64_t left = kMaxCompanionBytes;
  for (const auto& [name, file] : files) copy_durably(file, folder / name, left);
}

std::vector<std::pair<std::string, std::string>> read_carried(const Companions& files) {
  std::vector<std::pair<std::string, std::string>> read;
  for (const auto& [name, file] : files) {
    if (is_carried_file(name))
      read.emplace_back(name, read_text_file(file, InputKind::kCheckpoint, kMaxCarriedBytes));
  }
  return read;
}

}  // namespace moh
