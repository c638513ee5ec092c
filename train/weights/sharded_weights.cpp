#include "train/weights/sharded_weights.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"

namespace moh {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::uint64_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kMaxShards = 10'000;
constexpr int kMaxIndexDepth = 8;

/// Tensor -> file name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

class ShardedWeights final : public WeightFile {
 public:
  ShardedWeights(const fs::path& path, FunctionRef<std::unique_ptr<WeightFile>(const fs::path&)> open_shard,
                 TotalSize total_size)
      : path_(path) {
    const json index =
        json::parse(read_json_object(path, InputKind::kCheckpoint, kMaxIndexBytes, kMaxIndexDepth));
    const WeightMap map = read_map(index);
    std::set<std::string> names;
    for (const auto& [tensor, shard] : map) names.insert(shard);
    if (names.size() > kMaxShards) {
      fail("weight_map", "at most " + std::to_string(kMaxShards) + " files", std::to_string(names.size()));
    }
    std::vector<WeightInfo> tensors;
    std::uint64_t bytes = 0;
    for (const std::string& name : names) {
      shards_.push_back(open_shard(path.parent_path() / name));
      for (const WeightInfo& tensor : shards_.back()->tensors()) {
        check_mapped(map, name, tensor);
        tensors.push_back(tensor);
        tensors.back().place = sources_.size();
        sources_.emplace_back(shards_.back().get(), &tensor);
        bytes += tensor.bytes;
      }
    }
    set_tensors(std::move(tensors));
    metadata_ = shards_.front()->metadata();
    for (const auto& [name, shard] : map) {
      if (find(name) == nullptr)
        fail("weight_map, " + printable(name), "this tensor in " + printable(shard), "no such tensor there");
    }
    check_total_size(index, bytes, total_size);
  }

  const fs::path& path() const override { return path_; }
  std::string format() const override {
    return shards_.front()->format() + " in " + std::to_string(shards_.size()) +
           (shards_.size() == 1 ? " shard" : " shards");
  }
  std::vector<fs::path> files() const override {
    std::vector<fs::path> files = {path_};
    for (const auto& shard : shards_) files.push_back(shard->path());
    return files;
  }
  std::vector<std::string> parts() const override { return shards_.front()->parts(); }
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const auto& [shard, there] = sources_.at(tensor.place);
    shard->read(*there, offset, to);
  }

 private:
  WeightMap read_map(const json& index) const {
    const auto listed = index.find("weight_map");
    if (listed == index.end() || !listed->is_object()) {
      fail("weight_map", "an object that names each tensor's file",
           listed == index.end() ? "none" : "another value");
    }
    if (listed->empty()) fail("weight_map", "tensors", "none");
    WeightMap map;
    for (const auto& [name, file] : listed->items()) {
      const std::string where = "weight_map, " + printable(name);
      if (!file.is_string()) fail(where, "the name of a file", printable(file.dump()));
      const std::string text = file.get<std::string>();
      const bool plain = !text.empty() && text[0] != '.' &&
                         text.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
      if (!plain) fail(where, "the plain name of a file beside the index", "'" + printable(text) + "'");
      map[name] = text;
    }
    return map;
  }

  void check_mapped(const WeightMap& map, const std::string& shard, const WeightInfo& tensor) const {
    const auto mapped = map.find(tensor.name);
    const std::string where = printable(shard) + ", " + printable(tensor.name);
    if (mapped == map.end()) fail(where, "a tensor that weight_map lists", "one that it lacks");
    if (mapped->second != shard) {
      fail(where, "this tensor in " + printable(mapped->second) + " alone, as weight_map says",
           "it here, too");
    }
  }

  void check_total_size(const json& index, std::uint64_t bytes, TotalSize total_size) const {
    const auto metadata = index.find("metadata");
    if (metadata == index.end() || !metadata->is_object()) return;
    const auto size = metadata->find("total_size");
    if (size == metadata->end()) return;
    if (!size->is_number()) fail("metadata, total_size", "a number of bytes", printable(size->dump()));
    // Some writers give a number with a fraction of .0.
    if (size->get<double>() == static_cast<double>(bytes)) return;
    const std::string expected = std::to_string(bytes) + ", the bytes of all tensors";
    const std::string found = json(size->get<double>()).dump();
    if (total_size == TotalSize::kWarned)
      return log_warning(error_message(path_.string(), "metadata, total_size", expected, found));
    fail("metadata, total_size", expected, found,
         "the index may belong to other files; correct or remove this entry, or convert with "
         "--allow-differences");
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    throw CheckpointError(error_message(path_.string(), what, expected, found, fix));
  }

  fs::path path_;
  std::vector<std::unique_ptr<WeightFile>> shards_;
  std::vector<std::pair<const WeightFile*, const WeightInfo*>> sources_;  // by WeightInfo::place
};

}  // namespace

std::unique_ptr<WeightFile> open_sharded_weights(
    const fs::path& index, FunctionRef<std::unique_ptr<WeightFile>(const fs::path&)> open_shard,
    TotalSize total_size) {
  return std::make_unique<ShardedWeights>(index, open_shard, total_size);
}

}  // namespace moh
