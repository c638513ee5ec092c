#include "train/weights/weight_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "train/formats/safetensors_layout.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

using Shard = std::vector<TensorToWrite>;

SafetensorsLayout layout_of(const WeightFile& source, std::span<const TensorToWrite> tensors) {
  std::vector<WeightInfo> items;
  for (const TensorToWrite& t : tensors) items.push_back({t.tensor->name, t.stored_dtype, t.tensor->shape});
  WeightFile::Metadata metadata = source.metadata();
  metadata["format"] = "pt";  // readers of the Hugging Face libraries ask for this entry
  return SafetensorsLayout(items, metadata);
}

std::vector<Shard> split(std::span<const TensorToWrite> tensors, std::uint64_t shard_bytes) {
  std::vector<Shard> shards(1);
  std::uint64_t filled = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t bytes = written_bytes(tensor);
    const bool fits = shard_bytes == 0 || bytes <= shard_bytes - std::min(filled, shard_bytes);
    if (!fits && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += bytes;
  }
  return shards;
}

/// "model-00001-of-00004.safetensors"; "model.safetensors" for the only one.
std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return kModelFile;
  const auto digits = [](std::size_t number) {
    const std::string text = std::to_string(number);
    return std::string(5 - std::min<std::size_t>(text.size(), 5), '0') + text;
  };
  return "model-" + digits(index + 1) + "-of-" + digits(count) + ".safetensors";
}

std::string index_text(std::span<const Shard> shards) {
  nlohmann::json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::json::object()}};
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TensorToWrite& tensor : shards[i]) {
      index["weight_map"][tensor.tensor->name] = shard_name(i, shards.size());
      total += written_bytes(tensor);
    }
  }
  index["metadata"]["total_size"] = total;
  return index.dump(2) + '\n';
}

}  // namespace

std::uint64_t written_bytes(const TensorToWrite& tensor) {
  if (const auto bytes = stored_bytes(tensor.stored_dtype, tensor.tensor->shape)) return *bytes;
  throw ValueError(error_message("safetensors", printable(tensor.tensor->name), "a type that the format has",
                                 tensor.stored_dtype, "convert it with --dtype, or leave it out"));
}

std::string_view main_type(std::span<const TensorToWrite> tensors) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const TensorToWrite& tensor : tensors) bytes[tensor.stored_dtype] += written_bytes(tensor);
  return std::ranges::max_element(bytes, {}, &std::pair<const std::string_view, std::uint64_t>::second)
      ->first;
}

ManifestFile stream_safetensors(const WeightFile& source, std::span<const TensorToWrite> tensors,
                                FunctionRef<void(std::span<const std::byte>)> sink, WriteProgress progress) {
  const SafetensorsLayout layout = layout_of(source, tensors);
  const auto elements = [&](std::size_t index, ByteSink to) {
    stream_tensor(source, *tensors[index].tensor, tensors[index].stored_dtype, to);
  };
  const SafetensorsChecksums checksums =
      write_safetensors(layout, elements, [&](std::span<const std::byte> bytes) {
        sink(bytes);
        progress(bytes.size());
      });
  ManifestFile written{"", layout.bytes(), checksums.file, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    written.tensors[tensors[i].tensor->name] = checksums.tensors[i];
  return written;
}

ManifestFile write_safetensors_file(const fs::path& path, const WeightFile& source,
                                    std::span<const TensorToWrite> tensors, WriteProgress progress) {
  OutputFile file(path, layout_of(source, tensors).bytes());
  ManifestFile written = stream_safetensors(
      source, tensors, [&](std::span<const std::byte> bytes) { file.write(bytes); }, progress);
  file.sync_and_close();
  written.name = path.filename().string();
  return written;
}

std::size_t write_model_files(const fs::path& folder, const WeightFile& source,
                              std::span<const TensorToWrite> tensors, std::uint64_t shard_bytes,
                              WriteProgress progress) {
  const std::vector<Shard> shards = split(tensors, shard_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    write_safetensors_file(folder / shard_name(i, shards.size()), source, shards[i], progress);
  }
  if (shards.size() > 1) write_new_file(folder / "model.safetensors.index.json", index_text(shards));
  return shards.size();
}

}  // namespace moh
