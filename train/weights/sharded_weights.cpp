#include "train/weights/sharded_weights.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/error.h"
#include "train/io/json_text.h"
#include "train/io/printable.h"

namespace moh {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::uint64_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kMaxShards = 10'000;
constexpr int kMaxDepth = 8;

/// Tensor -> file name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

class Index {
 public:
  explicit Index(const fs::path& path) : path_(path) {
    const json document =
        json::parse(read_json_object(path, InputKind::kCheckpoint, kMaxIndexBytes, kMaxDepth));
    const auto map = document.find("weight_map");
    if (map == document.end() || !map->is_object()) {
      fail("weight_map", "an object that names each tensor's file",
           map == document.end() ? "none" : "another value");
    }
    for (const auto& [name, file] : map->items()) add(name, file);
    if (map_.empty()) fail("weight_map", "tensors", "none");
    if (shards_.size() > kMaxShards) {
      fail("weight_map", "at most " + std::to_string(kMaxShards) + " files", std::to_string(shards_.size()));
    }
    read_total_size(document);
  }

  const WeightMap& map() const { return map_; }
  const std::set<std::string>& shards() const { return shards_; }

  void check_total_size(std::uint64_t bytes) const {
    if (!total_size_ || *total_size_ == static_cast<double>(bytes)) return;
    fail("metadata, total_size", std::to_string(bytes) + ", the bytes of all tensors",
         json(*total_size_).dump(), "the index belongs to other files; correct or remove this entry");
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    throw CheckpointError(error_message(path_.string(), what, expected, found, fix));
  }

 private:
  void add(const std::string& name, const json& file) {
    const std::string where = "weight_map, " + printable(name);
    if (!file.is_string()) fail(where, "the name of a file", printable(file.dump()));
    const std::string text = file.get<std::string>();
    const bool plain = !text.empty() && text[0] != '.' &&
                       text.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) fail(where, "the plain name of a file beside the index", "'" + printable(text) + "'");
    map_[name] = text;
    shards_.insert(text);
  }

  void read_total_size(const json& document) {
    const auto metadata = document.find("metadata");
    if (metadata == document.end() || !metadata->is_object()) return;
    const auto size = metadata->find("total_size");
    if (size == metadata->end()) return;
    // Some writers give a number with a fraction of .0.
    if (!size->is_number()) fail("metadata, total_size", "a number of bytes", printable(size->dump()));
    total_size_ = size->get<double>();
  }

  fs::path path_;
  WeightMap map_;
  std::set<std::string> shards_;
  std::optional<double> total_size_;
};

class ShardedWeights : public WeightFile {
 public:
  ShardedWeights(const fs::path& path, FunctionRef<std::unique_ptr<WeightFile>(const fs::path&)> open_shard)
      : path_(path) {
    const Index index(path);
    std::uint64_t bytes = 0;
    for (const std::string& name : index.shards()) {
      shards_.push_back(open_shard(path.parent_path() / name));
      for (const WeightInfo& tensor : shards_.back()->tensors()) {
        add(index, name, tensor);
        bytes += tensor.bytes;
      }
    }
    for (const auto& [name, shard] : index.map()) {
      if (!shard_of_.contains(name)) {
        index.fail("weight_map, " + printable(name), "this tensor in " + printable(shard),
                   "no such tensor there");
      }
    }
    index.check_total_size(bytes);
  }

  const fs::path& path() const override { return path_; }
  std::string format() const override {
    return shards_.front()->format() + " in " + std::to_string(shards_.size()) +
           (shards_.size() == 1 ? " shard" : " shards");
  }
  std::span<const WeightInfo> tensors() const override { return tensors_; }
  /// What the first shard says about itself.
  const Metadata& metadata() const override { return shards_.front()->metadata(); }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const auto shard = shard_of_.find(tensor.name);
    MOH_CHECK(shard != shard_of_.end(), "a tensor of these files");
    shard->second->read(tensor, offset, to);
  }

 private:
  void add(const Index& index, const std::string& shard, const WeightInfo& tensor) {
    const auto mapped = index.map().find(tensor.name);
    const std::string where = printable(shard) + ", " + printable(tensor.name);
    if (mapped == index.map().end()) {
      index.fail(where, "a tensor that weight_map lists", "one that it does not");
    }
    if (mapped->second != shard) {
      index.fail(where, "this tensor in " + printable(mapped->second) + " alone, as weight_map says",
                 "it here too");
    }
    shard_of_.emplace(tensor.name, shards_.back().get());
    tensors_.push_back(tensor);
  }

  fs::path path_;
  std::vector<std::unique_ptr<WeightFile>> shards_;
  std::vector<WeightInfo> tensors_;
  std::map<std::string, const WeightFile*, std::less<>> shard_of_;
};

}  // namespace

std::unique_ptr<WeightFile> open_sharded_weights(
    const fs::path& index, FunctionRef<std::unique_ptr<WeightFile>(const fs::path&)> open_shard) {
  return std::make_unique<ShardedWeights>(index, open_shard);
}

}  // namespace moh
