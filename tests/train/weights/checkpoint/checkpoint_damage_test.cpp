#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/io/checksum.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;

const std::string shard_file = "optimizer-00000-of-00001.safetensors";
const std::vector<std::string> all_files = {"config.yaml", "manifest.json", "model.safetensors", shard_file,
                                            "trainer.json"};

/// One sound checkpoint to damage.
struct Sample {
  TemporaryFolder run;
  fs::path folder = StoreUnderTest(run.path()).store.save(sample_checkpoint(1200));

  /// The message of the refusal, behind the path of the checkpoint.
  std::string refusal() const {
    const std::string message = message_of<CheckpointError>([&] { read_checkpoint(folder); });
    REQUIRE(message.starts_with(folder.string()));
    return message.substr(folder.string().size());
  }

  /// Rewrites the manifest with a checksum that fits: a lie that only comparing with the files can find.
  void edit_manifest(const std::function<void(json&)>& edit) const {
    json manifest = json::parse(read_file(folder / "manifest.json"));
    edit(manifest);
    manifest.erase("checksum");
    manifest["checksum"] = checksum_hex(manifest.dump());
    write_file(folder / "manifest.json", manifest.dump(1) + '\n');
  }
};

}  // namespace

TEST_CASE("checkpoint: damage: any flipped bit of any file is found") {
  const Sample sample;
  std::mt19937 random(7);
  for (const std::string& name : all_files) {
    const std::string good = read_file(sample.folder / name);
    for (int flip = 0; flip < 200; ++flip) {
      const std::size_t bit = std::uniform_int_distribution<std::size_t>(0, good.size() * 8 - 1)(random);
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      write_file(sample.folder / name, bad);
      INFO(name << ", bit " << bit);
      CHECK_THAT(sample.refusal(), Contains(name));
    }
    write_file(sample.folder / name, good);
  }
  CHECK(same_checkpoint(read_checkpoint(sample.folder), sample_checkpoint(1200)));
}

TEST_CASE("checkpoint: damage: a flipped bit of a tensor names it and both checksums") {
  const Sample sample;
  const fs::path path = sample.folder / "model.safetensors";
  std::string bytes = read_file(path);
  bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 0x40);
  write_file(path, bytes);
  const Tensor sound = sample_checkpoint(1200).model[1].tensor;
  const Tensor flipped = sound.clone();
  static_cast<std::byte*>(flipped.raw())[flipped.bytes() - 1] ^= std::byte{0x40};
  CHECK(sample.refusal() == "/model.safetensors: layers.0.wo: expected checksum " +
                                checksum_hex(bytes_of(sound)) + ", found " + checksum_hex(bytes_of(flipped)) +
                                "; the checkpoint is damaged");
}

TEST_CASE("checkpoint: damage: truncated, extended, emptied and zero-filled files are refused") {
  const Sample sample;
  for (const std::string& name : all_files) {
    INFO(name);
    const std::string good = read_file(sample.folder / name);
    for (const std::string& bad :
         {good.substr(0, good.size() - 1), good.substr(0, good.size() / 2), std::string(), good + "x",
          good + std::string(4096, '\0'), std::string(good.size(), '\0'),
          good.substr(0, good.size() / 2) + std::string(good.size() - good.size() / 2, '\0')}) {
      write_file(sample.folder / name, bad);
      CHECK_THAT(sample.refusal(), Contains(name));
    }
    write_file(sample.folder / name, good);
  }
}

TEST_CASE("checkpoint: damage: a wrong size is named with both sizes") {
  const Sample sample;
  const std::uintmax_t size = fs::file_size(sample.folder / shard_file);
  fs::resize_file(sample.folder / shard_file, size - 3);
  CHECK(sample.refusal() == "/" + shard_file + ": size: expected " + std::to_string(size) +
                                " bytes, as the manifest says, found " + std::to_string(size - 3) +
                                "; the checkpoint is damaged");
}

TEST_CASE("checkpoint: damage: missing and foreign files are refused by name") {
  for (const std::string& name : all_files) {
    const Sample sample;
    fs::remove(sample.folder / name);
    CHECK(sample.refusal() == "/" + name + ": expected a readable file, found No such file or directory");
  }
  const Sample sample;
  write_file(sample.folder / ".nfs0001", "a file system's own business");
  CHECK(read_checkpoint(sample.folder).step == 1200);
  write_file(sample.folder / "optimizer-00001-of-00002.safetensors", "x");
  CHECK(sample.refusal() ==
        ": expected only the files that its manifest lists, found optimizer-00001-of-00002.safetensors; move "
        "that file "
        "elsewhere");
}

TEST_CASE("checkpoint: damage: files of another step are refused") {
  const Sample sample;
  const fs::path other = StoreUnderTest(sample.run / "other").store.save(sample_checkpoint(1201));
  for (const std::string& name :
       {std::string("model.safetensors"), shard_file, std::string("trainer.json")}) {
    const std::string good = read_file(sample.folder / name);
    write_file(sample.folder / name, read_file(other / name));
    CHECK_THAT(sample.refusal(), Contains("/" + name) && Contains("checksum"));
    write_file(sample.folder / name, good);
  }
  fs::rename(other, sample.folder.parent_path() / "step_00001300");
  CHECK_THAT(
      message_of<CheckpointError>([&] { read_checkpoint(sample.folder.parent_path() / "step_00001300"); }),
      Contains(
          "manifest.json: step: expected 1300, found 1201; the folder was renamed or its files mixed up"));
}

TEST_CASE("checkpoint: damage: a newer format is refused with the version that it needs") {
  const Sample sample;
  sample.edit_manifest([](json& manifest) { manifest["format_version"] = 3; });
  CHECK(sample.refusal() ==
        "/manifest.json: format_version: expected at most 1, found 3; a newer moh wrote this checkpoint; use "
        "one that "
        "reads version 3");
  sample.edit_manifest([](json& manifest) { manifest["format"] = "zip"; });
  CHECK(sample.refusal() == "/manifest.json: format: expected moh-checkpoint, found zip");
}

TEST_CASE("checkpoint: damage: a manifest that lies is refused") {
  const auto lie = [](const std::function<void(json&)>& edit) {
    const Sample sample;
    sample.edit_manifest(edit);
    return sample.refusal();
  };
  const auto file = [](json& manifest, std::size_t i) -> json& { return manifest["files"][i]; };

  for (const char* path : {"../model.safetensors", "/etc/passwd", "..", "", "a/b", "manifest.json"}) {
    CHECK(lie([&](json& m) { file(m, 0)["name"] = path; }) ==
          "/manifest.json: files: expected the files of a checkpoint, each once, found " + std::string(path));
  }
  CHECK_THAT(lie([&](json& m) { m["files"].push_back(file(m, 0)); }),
             Contains("each once, found model.safetensors"));
  CHECK(lie([](json& m) { m["files"].erase(1); }) ==
        "/manifest.json: files: expected " + shard_file + ", found no such entry");
  CHECK(lie([](json& m) { m["num_optimizer_shards"] = 2; }) ==
        "/manifest.json: files: expected the files of a checkpoint, each once, found " + shard_file);
  CHECK_THAT(lie([](json& m) { m["num_optimizer_shards"] = 100'000; }),
             Contains("expected a whole number from 0 to 99999"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["bytes"] = -1; }), Contains("bytes: expected a whole number"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["bytes"] = 1e30; }), Contains("bytes: expected a whole number"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["bytes"] = 7; }),
             Contains("/model.safetensors: size: expected 7 bytes"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["checksum"] = "0"; }),
             Contains("/model.safetensors: header: expected checksum 0"));
  CHECK_THAT(lie([&](json& m) { file(m, 2)["checksum"] = "0"; }),
             Contains("/trainer.json: expected checksum 0"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["tensors"]["none"] = "0"; }),
             Contains("/model.safetensors: none: expected checksum 0"));
  CHECK_THAT(
      lie([&](json& m) { file(m, 0)["tensors"]["ghost"] = "0"; }),
      Contains(
          "/model.safetensors: ghost: expected this tensor, which the manifest lists, found no such tensor"));
  CHECK_THAT(
      lie([&](json& m) { file(m, 0)["tensors"].erase("none"); }),
      Contains(
          "/model.safetensors: none: expected a tensor that the manifest lists, found one that it lacks"));
  CHECK_THAT(lie([&](json& m) { file(m, 0)["tensors"]["none"] = 3; }),
             Contains("tensor none: expected a checksum, found 3"));
  CHECK_THAT(lie([](json& m) { m["step"] = "x"; }), Contains("step: expected a whole number"));
  CHECK_THAT(lie([](json& m) { m.erase("files"); }),
             Contains("files: expected a value of its type, found no such key"));
  CHECK_THAT(lie([](json& m) { m["files"] = 1; }),
             Contains("files: expected a value of its type, found a value of another type"));
  CHECK_THAT(lie([](json& m) { m["files"][0] = 1; }),
             Contains("name: expected a value of its type, found no such key"));
}

TEST_CASE("checkpoint: damage: a manifest that is no manifest is refused") {
  const Sample sample;
  const std::string good = read_file(sample.folder / "manifest.json");
  write_file(sample.folder / "manifest.json", "{\"step\": 5," + good.substr(1));  // a key twice
  CHECK(
      sample.refusal() ==
      "/manifest.json: expected the text as moh writes it, found a different one; the checkpoint is damaged");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), std::string(300'000, '['),
        "{\"a\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}"}) {
    write_file(sample.folder / "manifest.json", text);
    CHECK_THAT(sample.refusal(), Contains("/manifest.json: expected "));
  }
}

}  // namespace moh
