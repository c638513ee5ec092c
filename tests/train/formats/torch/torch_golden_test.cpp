#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/tensor.h"
#include "tests/support/message_of.h"
#include "tests/support/sha256.h"
#include "train/formats/torch/torch_file.h"
#include "train/formats/torch/torch_weights.h"

namespace moh {

namespace {

using nlohmann::json;

/// The folders of reference files: the one in the tree, and the shared one if there is any.
std::vector<std::filesystem::path> folders() {
  std::vector<std::filesystem::path> found = {std::filesystem::path(MOH_SOURCE_DIR) /
                                              "tests/golden/torch_checkpoints"};
  if (const char* shared = std::getenv("MOH_SHARED")) {
    found.push_back(std::filesystem::path(shared) / "golden/torch_checkpoints");
  }
  return found;
}

/// Runs `body` for every file that a manifest lists.
void for_each_file(const std::function<void(const std::filesystem::path&, const json&)>& body) {
  for (const auto& folder : folders()) {
    const json manifest = json::parse(std::ifstream(folder / "manifest.json"));
    REQUIRE(manifest.size() >= 8);
    for (const auto& [name, expected] : manifest.items()) {
      INFO(folder / name);
      body(folder / name, expected);
    }
  }
}

bool is_refused(const json& expected) {
  return expected.value("refuse", false);
}

std::vector<std::byte> elements(const TorchFile& file, const TorchTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  file.read(tensor, 0, bytes);
  return bytes;
}

void check_tensor(const TorchFile& file, const std::string& path, const json& expected) {
  INFO(path);
  const TorchLeaf* leaf = file.find(path);
  REQUIRE(leaf != nullptr);
  REQUIRE(leaf->kind == TorchKind::kTensor);
  const TorchTensor& tensor = *leaf->tensor;
  CHECK(tensor.dtype->name == expected.at("dtype").get<std::string>());
  CHECK(tensor.shape == expected.at("shape").get<std::vector<std::int64_t>>());
  CHECK(tensor.strides == expected.at("stride").get<std::vector<std::int64_t>>());
  CHECK(tensor.storage_offset == expected.at("storage_offset").get<std::int64_t>());
  CHECK(sha256_hex(elements(file, tensor)) == expected.at("sha256").get<std::string>());
}

template <class T>
double sum_of(std::span<const std::byte> bytes) {
  double sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    sum += static_cast<double>(value);
  }
  return sum;
}

/// The manifest's sums, computed from the elements as this program reads them.
void check_sum(const TorchFile& file, const std::string& path, const json& expected) {
  const TorchTensor& tensor = *file.find(path)->tensor;
  const auto bytes = elements(file, tensor);
  const double want = expected.value("sum", 0.0);
  const std::string_view dtype = tensor.dtype->name;
  INFO(path << " " << dtype);
  if (dtype == "F32") CHECK(sum_of<float>(bytes) == Approx(want).margin(1e-9));
  if (dtype == "F64") CHECK(sum_of<double>(bytes) == Approx(want).margin(1e-12));
  if (dtype == "I64") CHECK(sum_of<std::int64_t>(bytes) == want);
  if (dtype == "I8") CHECK(sum_of<std::int8_t>(bytes) == want);
}

json as_json(const TorchPlain& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  return nullptr;
}

}  // namespace

TEST_CASE("torch: golden: sha256 gives the digests of the standard") {
  CHECK(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex(std::as_bytes(std::span("abc", 3))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("torch: golden: every tensor of every file has its dtype, shape, strides, offset and elements") {
  std::size_t count = 0;
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    const TorchFile file(path);
    std::size_t tensors = 0;
    for (const TorchLeaf& leaf : file.leaves()) tensors += leaf.kind == TorchKind::kTensor ? 1 : 0;
    CHECK(tensors == expected.at("tensors").size());
    for (const auto& [name, tensor] : expected.at("tensors").items()) {
      check_tensor(file, name, tensor);
      check_sum(file, name, tensor);
    }
    count += tensors;
  });
  CHECK(count >= 24 + 24 + 7 + 7 + 7);
}

TEST_CASE("torch: golden: every other value of every file is found, and no more") {
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    const TorchFile file(path);
    json found = json::object();
    for (const TorchLeaf& leaf : file.leaves()) {
      if (leaf.kind == TorchKind::kPlain) found[leaf.path] = as_json(leaf.value);
      if (leaf.kind == TorchKind::kEmpty)
        found[leaf.path] = json::parse(std::get<std::string_view>(leaf.value));
    }
    CHECK(found == expected.at("plain"));
  });
}

TEST_CASE("torch: golden: files that would run a command are refused, and nothing runs") {
  const std::filesystem::path trace = "/tmp/pwned";  // what the commands in these files would create
  const bool before = std::filesystem::exists(trace);
  int refused = 0;
  for_each_file([&](const auto& path, const json& expected) {
    if (!is_refused(expected)) return;
    CHECK(looks_like_torch_file(path));
    const std::string message = message_of<CheckpointError>([&] { TorchFile file(path); });
    CHECK_THAT(message, Catch::StartsWith(path.string()) && Catch::Contains("found posix.system"));
    ++refused;
  });
  CHECK(refused >= 3);
  CHECK(std::filesystem::exists(trace) == before);
}

TEST_CASE("torch: golden: the models in the files are found by name") {
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    const TorchFile file(path);
    std::map<std::string, std::size_t> parts;
    for (const TorchModel& model : file.models()) parts[model.part] = model.tensors.size();
    using Parts = std::map<std::string, std::size_t>;
    const std::string name = path.filename();
    if (name == "dit_tiny.pt") {
      CHECK(parts == Parts{{"ema", 36}, {"model", 36}});
      CHECK(file.choose_model().part == "ema");  // as sample.py of DiT does
      CHECK(open_torch_weights(path, "model")->metadata().at("part") == "model");
    } else if (name == "transnext_tiny.pth") {
      CHECK(parts == Parts{{"model", 171}});
    } else if (name == "legacy_state_dict.pth") {
      CHECK(parts == Parts{{"state_dict", 7}});
    } else if (name == "plain_state_dict.pt" || name == "protocol4.pt") {
      CHECK(parts == Parts{{".", 7}});
    }
  });
}

TEST_CASE("torch: golden: weight files give the elements in pieces of any size") {
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    const TorchFile file(path);
    const TorchModel& model = file.choose_model();
    const std::string prefix = model.part == "." ? "" : model.part + "/";
    const auto weights = open_torch_weights(path);
    REQUIRE(weights->tensors().size() == model.tensors.size());
    for (const WeightInfo& info : weights->tensors()) {
      const json& tensor = expected.at("tensors").at(prefix + info.name);
      INFO(info.name);
      CHECK(info.stored_dtype == tensor.at("dtype").get<std::string>());
      std::vector<std::byte> bytes(info.bytes);
      for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = size * 3 % 1000 + 1) {
        size = std::min(size, bytes.size() - at);
        weights->read(info, at, std::span(bytes).subspan(at, size));
      }
      CHECK(sha256_hex(bytes) == tensor.at("sha256").get<std::string>());
    }
  });
}

}  // namespace moh
