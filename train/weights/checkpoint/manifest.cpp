#include "train/weights/checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kFormat = "moh-checkpoint";
constexpr std::uint64_t kMaxManifestBytes = 100'000'000;
constexpr std::int64_t kMaxOptimizerShards = 99'999;  // file names have 5 digits
constexpr int kMaxManifestDepth = 8;

std::string text_of(const Json& document) {
  return document.dump(1) + '\n';
}

/// The checksum of all other members. Keys are sorted, so that equal contents give equal text.
std::string checksum_of(Json document) {
  document.erase("checksum");
  return checksum_hex(document.dump());
}

class ManifestReader {
 public:
  explicit ManifestReader(const fs::path& folder) : folder_(folder), path_(folder / kManifestFile) {}

  Manifest read() {
    const std::string text = read_text_file(path_, InputKind::kCheckpoint, kMaxManifestBytes);
    const Json document = parse(text);
    check_version(document);
    // Differences that the parser ignores (spaces, a key twice, bytes after a NUL) are damage, too.
    if (text != text_of(document))
      fail("", "the text as moh writes it", "a different one", "the checkpoint is damaged");
    const auto checksum = member<std::string>(document, "checksum");
    if (const std::string actual = checksum_of(document); actual != checksum) {
      fail("checksum of the manifest", printable(checksum), actual, "the checkpoint is damaged");
    }
    Manifest manifest;
    manifest.step = whole_number(document, "step", INT64_MAX);
    if (document.contains("metric")) manifest.metric = member<double>(document, "metric");
    manifest.num_optimizer_shards =
        static_cast<int>(whole_number(document, "num_optimizer_shards", kMaxOptimizerShards));
    for (const Json& entry : member<Json::array_t>(document, "files"))
      manifest.files.push_back(file_of(entry));
    check_list(manifest);
    check_folder(manifest);
    return manifest;
  }

 private:
  Json parse(const std::string& text) const {
    // The library copies and prints documents recursively: deep nesting in a hostile file would overflow the
    // stack.
    const auto refuse_depth = [this](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxManifestDepth)
        fail("", "at most " + std::to_string(kMaxManifestDepth) + " levels of nesting", "more");
      return true;
    };
    Json document = Json::parse(text, refuse_depth, /*allow_exceptions=*/false);
    if (!document.is_object()) fail("", "a JSON object", "something else", "the checkpoint is damaged");
    return document;
  }

  void check_version(const Json& document) const {
    const auto format = member<std::string>(document, "format");
    if (format != kFormat) fail("format", kFormat, printable(format));
    const std::int64_t version = whole_number(document, "format_version", INT64_MAX);
    if (version > kCheckpointFormatVersion) {
      fail("format_version", "at most " + std::to_string(kCheckpointFormatVersion), std::to_string(version),
           "a newer moh wrote this checkpoint; use one that reads version " + std::to_string(version));
    }
  }

  ManifestFile file_of(const Json& entry) const {
    ManifestFile file;
    file.name = member<std::string>(entry, "name");
    file.bytes = static_cast<std::uint64_t>(whole_number(entry, "bytes", INT64_MAX));
    file.checksum = member<std::string>(entry, "checksum");
    if (entry.contains("tensors")) {
      for (const auto& [name, checksum] : member<Json::object_t>(entry, "tensors")) {
        if (!checksum.is_string())
          fail("tensor " + printable(name), "a checksum", printable(checksum.dump()));
        file.tensors.emplace(name, checksum.get<std::string>());
      }
    }
    return file;
  }

  /// The list must name each file of a checkpoint once, and no other; so no name can point outside the
  /// folder.
  void check_list(const Manifest& manifest) const {
    std::set<std::string> expected = {kModelFile, kTrainerFile, kConfigFile};
    for (int i = 0; i < manifest.num_optimizer_shards; ++i) {
      expected.insert(optimizer_shard_file(i, manifest.num_optimizer_shards));
    }
    std::set<std::string> besides;
    for (const ManifestFile& file : manifest.files) {
      const bool may_be = file.name == kAverageFile || is_carried_file(file.name);
      if (expected.erase(file.name) == 0 && !(may_be && besides.insert(file.name).second))
        fail("files", "the files of a checkpoint, each once", printable(file.name));
    }
    if (!expected.empty()) fail("files", *expected.begin(), "no such entry");
  }

  void check_folder(const Manifest& manifest) const {
    for (const ManifestFile& file : manifest.files) {
      const InputFile present(folder_ / file.name, InputKind::kCheckpoint);
      if (present.size() != file.bytes) {
        present.fail("size", std::to_string(file.bytes) + " bytes, as the manifest says",
                     std::to_string(present.size()), "the checkpoint is damaged");
      }
    }
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.starts_with('.') || name == kManifestFile || manifest.find(name) != nullptr) continue;
      throw CheckpointError(error_message(folder_.string(), "", "only the files that its manifest lists",
                                          printable(name), "move that file elsewhere"));
    }
    if (error) {
      throw CheckpointAccessError(error_message(folder_.string(), "", "a readable folder", error.message()));
    }
  }

  template <class T>
  T member(const Json& object, const char* key) const {
    try {
      return object.at(key).get<T>();
    } catch (const Json::exception&) {
      fail(key, "a value of its type",
           object.is_object() && object.contains(key) ? "a value of another type" : "no such key");
    }
  }

  std::int64_t whole_number(const Json& object, const char* key, std::int64_t most) const {
    const Json value = member<Json>(object, key);
    const bool fits =
        value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    if (!fits) fail(key, "a whole number from 0 to " + std::to_string(most), printable(value.dump()));
    return value.get<std::int64_t>();
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    throw CheckpointError(error_message(path_.string(), what, expected, found, fix));
  }

  fs::path folder_;
  fs::path path_;
};

}  // namespace

bool is_carried_file(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kNames = {"tokenizer.json",
                                                              "tokenizer.model",
                                                              "tokenizer.tiktoken",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "chat_template.json",
                                                              "chat_template.jinja",
                                                              "generation_config.json",
                                                              "tiktoken.json",
                                                              "vocab.json",
                                                              "target_vocab.json",
                                                              "source.spm",
                                                              "target.spm"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::string zero_padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(text.size(), digits), '0') + text;
}

std::string optimizer_shard_file(int index, int count) {
  return "optimizer-" + zero_padded(index, 5) + "-of-" + zero_padded(count, 5) + ".safetensors";
}

const ManifestFile* Manifest::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &ManifestFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string to_json(const Manifest& manifest) {
  Json document = {{"format", kFormat},
                   {"format_version", kCheckpointFormatVersion},
                   {"step", manifest.step},
                   {"num_optimizer_shards", manifest.num_optimizer_shards},
                   {"files", Json::array()}};
  if (manifest.metric) document["metric"] = *manifest.metric;
  for (const ManifestFile& file : manifest.files) {
    document["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
    if (!file.tensors.empty()) document["files"].back()["tensors"] = file.tensors;
  }
  document["checksum"] = checksum_of(document);
  return text_of(document);
}

Manifest read_manifest(const fs::path& step_folder) {
  return ManifestReader(step_folder).read();
}

}  // namespace moh
