#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "core/tensor.h"
#include "tests/golden/golden_folders.h"
#include "tests/support/message_of.h"
#include "tests/support/sha256.h"
#include "train/base/formats/torch/torch_file.h"
#include "train/base/formats/torch/torch_weights.h"

namespace moh {

namespace {

using nlohmann::json;

/// Runs `body` for every file that the manifests of the golden folders list.
void for_each_file(const std::function<void(const std::filesystem::path&, const json&)>& body) {
  for (const std::filesystem::path& golden : test::golden_folders()) {
    const std::filesystem::path folder = golden / "torch_checkpoints";
    int count = 0;
    if (std::filesystem::exists(folder)) {
      const json manifest = json::parse(std::ifstream(folder / "manifest.json"));
      for (const auto& [name, expected] : manifest.items()) {
        INFO(folder / name);
        body(folder / name, expected);
        ++count;
      }
    }
    std::cout << "golden: torch files: " << count << " in " << golden.string() << std::endl;
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

/// The cost of the processes that this one has started and waited for, as a command would be.
std::int64_t work_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_minflt;
}

}  // namespace

TEST_CASE("torch: golden: sha256 gives the digests of the standard") {
  CHECK(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex(std::as_bytes(std::span("abc", 3))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("torch: golden: every file in the folders is in their manifests", "[shared]") {
  std::set<std::filesystem::path> listed;
  for_each_file([&](const auto& path, const json&) { listed.insert(path); });
  for (const auto& golden : test::golden_folders()) {
    const auto folder = golden / "torch_checkpoints";
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const auto kind = entry.path().extension();
      INFO(entry.path());
      if (kind == ".pt" || kind == ".pth" || kind == ".bin") CHECK(listed.contains(entry.path()));
    }
  }
  CHECK_FALSE(listed.empty());
}

TEST_CASE("torch: golden: every tensor of every file has its dtype, shape, strides, offset and elements",
          "[shared]") {
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
  });
}

TEST_CASE("torch: golden: every other value of every file is found, and no more", "[shared]") {
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

TEST_CASE("torch: golden: files that would run a command are refused, and nothing runs", "[shared]") {
  for_each_file([&](const auto& path, const json& expected) {
    if (!is_refused(expected)) return;
    const std::int64_t before = work_of_children();
    CHECK(looks_like_torch_file(path));
    const std::string message = message_of<CheckpointError>([&] { TorchFile file(path); });
    CHECK_THAT(message, Catch::StartsWith(path.string()) &&
                            Catch::Contains("expected the names of harmless classes, found "));
    CHECK(work_of_children() == before);
  });
}

namespace {

std::vector<std::string> names_of_path(const std::string& path) {
  std::vector<std::string> names;
  std::istringstream text(path);
  for (std::string name; std::getline(text, name, '/');) names.push_back(name);
  return names;
}

bool is_number(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos;
}

/// Training's own state: its tensors are named after those of the model.
bool is_state_of_training(const std::string& name) {
  return name.starts_with("opt") || name.ends_with("scheduler") || name.ends_with("scaler");
}

/// The models that a manifest shows, by path: how many tensors lie in each dict whose keys are all texts, and
/// to which such dicts lead.
std::map<std::string, std::size_t> models_of(const json& expected) {
  std::set<std::string> numbered;  // lists, and dicts with numbers as keys
  for (const char* kind : {"tensors", "plain"}) {
    for (const auto& [path, value] : expected.at(kind).items()) {
      std::string above = ".";
      for (const std::string& name : names_of_path(path)) {
        if (is_number(name)) numbered.insert(above);
        above += "/" + name;
      }
    }
  }
  std::map<std::string, std::size_t> models;
  for (const auto& [path, value] : expected.at("tensors").items()) {
    std::vector<std::string> names = names_of_path(path);
    names.pop_back();  // the tensor's own
    std::string above = ".";
    bool is_model = !numbered.contains(above);
    for (const std::string& name : names) {
      above += "/" + name;
      is_model = is_model && !numbered.contains(above) && !is_state_of_training(name);
    }
    if (is_model) ++models[names.empty() ? above : above.substr(2)];
  }
  return models;
}

/// The model that is taken by default: the one that the released programs load, the averaged weights first.
std::optional<std::string> usual_model(const std::map<std::string, std::size_t>& models) {
  if (models.size() == 1) return models.begin()->first;
  for (const char* part : {"ema", "model"}) {
    if (models.contains(part)) return part;
  }
  return {};
}

}  // namespace

TEST_CASE("torch: golden: the models in the files are found by name", "[shared]") {
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    const TorchFile file(path);
    std::map<std::string, std::size_t> found;
    for (const TorchModel& model : file.models()) found[model.part] = model.tensors.size();
    const std::map<std::string, std::size_t> models = models_of(expected);
    CHECK(found == models);
    for (const auto& [part, tensors] : models)
      CHECK(open_torch_weights(path, part)->tensors().size() == tensors);
    if (const auto usual = usual_model(models)) CHECK(file.choose_model().part == *usual);
  });
}

namespace {

/// Checks that each tensor of a model comes out as the manifest has it, whatever the sizes in which it is
/// read.
void check_pieces(const std::filesystem::path& path, const std::string& part, const json& tensors) {
  const std::string prefix = part == "." ? "" : part + "/";
  const auto weights = open_torch_weights(path, part);
  for (const WeightInfo& info : weights->tensors()) {
    const json& tensor = tensors.at(prefix + info.name);
    INFO(info.name);
    CHECK(info.stored_dtype == tensor.at("dtype").get<std::string>());
    std::vector<std::byte> bytes(info.bytes);
    for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = size * 3 % 1000 + 1) {
      size = std::min(size, bytes.size() - at);
      weights->read(info, at, std::span(bytes).subspan(at, size));
    }
    CHECK(sha256_hex(bytes) == tensor.at("sha256").get<std::string>());
  }
}

}  // namespace

TEST_CASE("torch: golden: weight files give the elements in pieces of any size", "[shared]") {
  for_each_file([&](const auto& path, const json& expected) {
    if (is_refused(expected)) return;
    for (const auto& [part, tensors] : models_of(expected)) check_pieces(path, part, expected.at("tensors"));
  });
}

}  // namespace moh
