#include "train/base/formats/safetensors.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>

#include "tests/golden/golden_folders.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/safetensors_text.h"
#include "train/base/formats/element_blocks.h"

namespace moh {

namespace {

std::vector<NamedTensor> one_of_each_dtype() {
  const float infinity = std::numeric_limits<float>::infinity();
  return {
      {"u8", tensor_of<std::uint8_t>({3}, {0, 1, 255})},
      {"f32", tensor_of<float>({2, 2}, {0.0F, -0.0F, 1e-45F, infinity})},
      {"bf16", tensor_of<bfloat16>({3}, {bfloat16(1.0F), bfloat16(-2.5F), bfloat16(infinity)})},
      {"f64", tensor_of<double>({1}, {0.1})},
      {"i32", tensor_of<std::int32_t>({1, 1, 2}, {-1, std::numeric_limits<std::int32_t>::min()})},
      {"i64", tensor_of<std::int64_t>({1}, {std::numeric_limits<std::int64_t>::min()})},
      {"scalar", tensor_of<float>(Shape{}, {42.0F})},
      {"empty", empty({0, 5}, DType::kFloat64)},
      {"na\"me \\ \xc3\xa9\n", tensor_of<float>({1}, {7.0F})},
  };
}

std::string elements(const Tensor& tensor) {
  const auto bytes = bytes_of(tensor);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("io: safetensors: every dtype, scalars, empty tensors and odd names survive a round trip") {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = one_of_each_dtype();
  save_safetensors(folder / "a.safetensors", tensors, {{"note", "line\n\"quoted\""}, {"format", "pt"}});

  const SafetensorsFile file(folder / "a.safetensors");
  CHECK(file.tensors().size() == tensors.size());
  CHECK(file.metadata().at("note") == "line\n\"quoted\"");
  for (const NamedTensor& named : tensors) {
    INFO(named.name);
    const Tensor loaded = file.tensor(named.name);
    CHECK(loaded.shape() == named.tensor.shape());
    CHECK(loaded.dtype() == named.tensor.dtype());
    CHECK(elements(loaded) == elements(named.tensor));
  }
}

TEST_CASE("io: safetensors: the file is a function of the tensors, aligned, and padded to 8") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = one_of_each_dtype();
  save_safetensors(folder / "a", tensors, {{"k", "v"}});
  std::ranges::reverse(tensors);
  save_safetensors(folder / "b", tensors, {{"k", "v"}});
  CHECK(read_file(folder / "a") == read_file(folder / "b"));

  const SafetensorsFile file(folder / "a");
  CHECK(file.raw_header().size() % 8 == 0);
  for (const WeightInfo& tensor : file.tensors()) {
    INFO(tensor.name);
    CHECK(tensor.place % dtype_size(file.dtype_of(tensor)) == 0);
  }
  CHECK(file.tensors().front().name == "empty");  // float64, and before "f64"
  CHECK(file.tensors().back().name == "u8");

  std::vector<NamedTensor> again;
  for (const WeightInfo& tensor : file.tensors()) again.push_back({tensor.name, file.tensor(tensor)});
  save_safetensors(folder / "c", again, file.metadata());
  CHECK(read_file(folder / "a") == read_file(folder / "c"));
}

TEST_CASE("io: safetensors: files as the reference library writes them") {
  // From the format's own tests: safetensors/src/tensor.rs, test_serialization and test_empty.
  const TemporaryFolder folder;
  std::string data;
  for (int i = 0; i < 6; ++i) data += elements(tensor_of<float>(Shape{}, {static_cast<float>(i)}));
  const std::string reference =
      safetensors_bytes(R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})", data);
  const Tensor tensor = tensor_of<float>({1, 2, 3}, {0, 1, 2, 3, 4, 5});
  save_safetensors(folder / "a", std::vector<NamedTensor>{{"attn.0", tensor}});
  CHECK(read_file(folder / "a") == reference);
  save_safetensors(folder / "b", {});
  CHECK(read_file(folder / "b") == safetensors_bytes("{}      "));
  save_safetensors(folder / "c", {}, {{"framework", "pt"}});
  CHECK(read_file(folder / "c") == safetensors_bytes(R"({"__metadata__":{"framework":"pt"}}     )"));
}

TEST_CASE("io: safetensors: leading white space, unordered entries, misaligned data and BOOL are read") {
  const TemporaryFolder folder;
  write_file(folder / "a",
             safetensors_bytes(" \n{\"b\" : {\"shape\":[1],\"data_offsets\":[1,5],\"dtype\":\"F32\"},"
                               "\"a\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[0,1]}} \t",
                               std::string("\x01\x00\x00\x80\x3f", 5)));
  const SafetensorsFile file(folder / "a");
  CHECK(file.tensor("a").dtype() == DType::kUInt8);
  CHECK(file.tensor("a").item() == 1.0);
  CHECK(file.tensor("b").item() == 1.0);
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("io: safetensors: what moh has no dtype for is listed but not loaded") {
  const TemporaryFolder folder;
  write_file(folder / "a", safetensors_bytes(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                                             R"("q":{"dtype":"F4","shape":[4],"data_offsets":[4,6]}})",
                                             "123456"));
  const SafetensorsFile file(folder / "a");
  CHECK(file.tensors()[0].stored_dtype == "F16");
  CHECK(file.tensors()[1].stored_dtype == "F4");
  CHECK(file.tensors()[1].bytes == 2);
  CHECK(
      message_of<DataError>([&] { file.tensor("h"); }) ==
      (folder / "a").string() +
          ": h: expected F32, BF16, F64, I32, I64, U8 or BOOL, found F16; convert the file to one of these");
  CHECK(message_of<DataError>([&] { file.tensor("missing"); }) ==
        (folder / "a").string() +
            ": missing: expected a tensor of this name, found none among the 2 tensors");
}

TEST_CASE("io: safetensors: a file that shrinks while it is open is an error, not a signal") {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  save_safetensors(path, std::vector<NamedTensor>{{"w", zeros({100'000}, DType::kFloat32)}});
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 5000);
  const std::string message = message_of<DataError>([&] { file.tensor("w"); });
  CHECK_THAT(message,
             Catch::Contains("a: w: expected ") && Catch::Contains("the end of the file at byte 5000"));
}

TEST_CASE("io: safetensors: the writer refuses names that a reader could not tell apart") {
  const Tensor tensor = zeros({1}, DType::kFloat32);
  const auto writing = [&](std::vector<NamedTensor> tensors) {
    return message_of<ValueError>([&] { layout_of(tensors, {}); });
  };
  CHECK(writing({{"w", tensor}, {"w", tensor}}) ==
        "safetensors: w: expected a name that is used once, found it twice");
  CHECK(writing({{"__metadata__", tensor}}) ==
        "safetensors: __metadata__: expected a name that is used once, found it twice");
  CHECK(writing({{"a\xff", tensor}}) == "safetensors: text: expected UTF-8, found a\\xff");
}

TEST_CASE("io: safetensors: golden files and Hugging Face checkpoints load", "[shared]") {
  for (const std::filesystem::path& folder : test::golden_folders()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      INFO(entry.path());
      const SafetensorsFile file(entry.path());
      for (const WeightInfo& tensor : file.tensors()) CHECK(file.tensor(tensor).bytes() == tensor.bytes);
    }
  }
}

}  // namespace moh
