#include "train/apps/convert/convert.h"
#include "train/families/families.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/safetensors_text.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/formats/safetensors.h"
#include "train/families/language/hf/hf_export.h"
#include "train/families/language/language_run.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace fs = std::filesystem;
using Catch::Contains;

namespace {

ConvertReport convert(const ConvertOptions& options) {
  return convert_model(options, families(), {[](const ConvertReport&) {}, [](std::uint64_t) {}});
}

std::string hash_of_model(const fs::path& path) {
  return content_hash(*open_weights(locate_model(path)), [](std::uint64_t) {});
}

/// A tensor of each type that the format has, 8 elements of changing bytes, in an order that moh would not
/// choose.
std::string file_of_all_types() {
  const std::vector<std::pair<std::string, int>> types = {
      {"F4", 4},      {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16},
      {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},    {"U32", 32},    {"F32", 32},
      {"C64", 64},    {"F64", 64},        {"I64", 64},        {"U64", 64}};
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}, {"note", "from elsewhere"}}}};
  std::string data;
  for (const auto& [name, bits] : types) {
    const std::size_t begin = data.size();
    for (int i = 0; i < bits; ++i) data += static_cast<char>(data.size() * 37 + 11);
    header["t." + name] = {{"dtype", name}, {"shape", {2, 4}}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_bytes(header.dump(), data);
}

/// The run of a model with a few thousand parameters.
LanguageRun small_model() {
  LanguageRun run;
  run.model = {.vocab_size = 256, .layers = 1, .hidden = 8, .intermediate = 8, .heads = 2};
  return run;
}

std::map<std::string, std::string> elements_of(const fs::path& path) {
  const auto weights = open_weights(locate_model(path));
  std::map<std::string, std::string> elements;
  for (const WeightInfo& tensor : weights->tensors()) {
    std::string& bytes =
        elements[tensor.name + " " + std::string(tensor.stored_dtype) + to_string(tensor.shape)];
    stream_tensor(*weights, tensor, tensor.stored_dtype, [&](std::span<const std::byte> block) {
      bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
    });
  }
  return elements;
}

}  // namespace

TEST_CASE("weights: round trips keep every type byte by byte, also those that moh does not compute with") {
  const TemporaryFolder folder;
  write_file(folder / "in", file_of_all_types());
  convert({.from = folder / "in", .to = folder / "one.safetensors"});
  convert({.from = folder / "one.safetensors", .to = folder / "shards", .shard_bytes = 100});
  convert({.from = folder / "shards", .to = folder / "again.safetensors"});
  const auto original = elements_of(folder / "in");
  CHECK(original.size() == 22);
  for (const char* name : {"one.safetensors", "shards", "again.safetensors"}) {
    INFO(name);
    CHECK(elements_of(folder / name) == original);
    CHECK(hash_of_model(folder / name) == hash_of_model(folder / "in"));
  }
  CHECK(read_file(folder / "again.safetensors") == read_file(folder / "one.safetensors"));
  CHECK(open_weights(locate_model(folder / "shards"))->metadata().at("note") == "from elsewhere");
}

TEST_CASE("weights: shards are filled in order, named as Hugging Face names them, and indexed") {
  const TemporaryFolder folder;
  save_safetensors(folder / "in.safetensors", std::vector<NamedTensor>{{"a", full({10}, 1, DType::kFloat32)},
                                                                       {"b", full({10}, 2, DType::kFloat32)},
                                                                       {"c", full({60}, 3, DType::kFloat32)},
                                                                       {"d", full({5}, 4, DType::kFloat32)}});
  const ConvertReport report =
      convert({.from = folder / "in.safetensors", .to = folder / "out", .shard_bytes = 80});
  CHECK(report.files == 3);
  CHECK(report.bytes == 340);
  CHECK(report.parameters == 85);
  CHECK(names_in(folder / "out") ==
        std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
  const auto index = nlohmann::json::parse(read_file(folder / "out/model.safetensors.index.json"));
  CHECK(index.at("metadata").at("total_size") == 340);
  const auto& map = index.at("weight_map");
  CHECK(map.at("a") == "model-00001-of-00003.safetensors");
  CHECK(map.at("b") == "model-00001-of-00003.safetensors");
  CHECK(map.at("c") == "model-00002-of-00003.safetensors");  // larger than a shard: one of its own
  CHECK(map.at("d") == "model-00003-of-00003.safetensors");
  CHECK(SafetensorsFile(folder / "out/model-00002-of-00003.safetensors").metadata().at("format") == "pt");
  // Weights that fit into one file are one.
  CHECK(convert({.from = folder / "in.safetensors", .to = folder / "whole", .shard_bytes = 340}).files == 1);
  CHECK(names_in(folder / "whole") == std::vector<std::string>{"model.safetensors"});
}

TEST_CASE("weights: types that do not convert, before anything is written") {
  const TemporaryFolder folder;
  write_file(folder / "in", file_of_all_types());
  CHECK_THAT(message_of<CheckpointError>(
                 [&] { convert({.from = folder / "in", .to = folder / "out.safetensors", .dtype = "F32"}); }),
             Contains("in: t.F4: expected a type that converts to F32, found F4; F4 does not convert") &&
                 Contains("dequantise the model in Python"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"in"});
}

TEST_CASE("weights: advice about a type that does not convert never names a way that is refused, too") {
  const LanguageRun run = small_model();
  const TemporaryFolder folder;
  write_hf_model_files(folder.path(), run.model, "float32");
  nlohmann::ordered_json header;
  std::size_t end = 0;
  for (const WeightInfo& spec : expected_tensors(*families().all().front(), run)) {
    const std::size_t begin = std::exchange(end, end + static_cast<std::size_t>(spec.shape.numel()));
    const std::span<const std::int64_t> extents = spec.shape.extents();
    header[spec.name] = {{"dtype", "F8_E4M3"},
                         {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                         {"data_offsets", {begin, end}}};
  }
  write_file(folder / "model.safetensors", safetensors_bytes(header.dump(), std::string(end, '\0')));
  const TemporaryFolder out;
  for (const WeightFormat format : {WeightFormat::kHuggingFace, WeightFormat::kMohCheckpoint}) {
    for (const char* dtype : {"", "F32", "BF16"}) {
      const std::string message = message_of<CheckpointError>([&] {
        convert({.from = folder.path(), .to = out / "step_00000000", .format = format, .dtype = dtype});
      });
      INFO(message);
      CHECK_THAT(message, Contains("F8_E4M3 does not convert") &&
                              Contains("dequantise the model in Python") && !Contains("--dtype float32"));
    }
  }
  convert({.from = folder.path(), .to = out / "kept.safetensors"});
  CHECK(names_in(out.path()) == std::vector<std::string>{"kept.safetensors"});
}

TEST_CASE("weights: what another format can name and safetensors cannot is the fault of the file") {
  using namespace test::pickle;
  const TemporaryFolder folder;
  const std::string file = write_file(
      folder / "in.pt",
      test::torch_zip(whole(dict({text("w\xff"), tensor(storage("0", "FloatStorage", 1), 0, {1}, {1})})),
                      {"abcd"}));
  CHECK(message_of<CheckpointError>([&] { convert({.from = file, .to = folder / "out.safetensors"}); }) ==
        file + ": cannot become safetensors: text: expected UTF-8, found w\\xff");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"in.pt"});
}

TEST_CASE("weights: files beside the model go along as long as they can be what their names say") {
  const LanguageRun run = small_model();
  const TemporaryFolder folder, out;
  write_hf_model_files(folder.path(), run.model, "float32");
  std::vector<NamedTensor> tensors;
  for (const WeightInfo& spec : expected_tensors(*families().all().front(), run))
    tensors.push_back({spec.name, full(spec.shape, 1, DType::kFloat32)});
  save_safetensors(folder / "model.safetensors", tensors);
  const std::string tokenizer = write_file(folder / "tokenizer.json", "{}");
  convert({.from = folder.path(), .to = out / "a", .format = WeightFormat::kHuggingFace});
  CHECK(read_file(out / "a/tokenizer.json") == "{}");
  fs::resize_file(tokenizer, std::uintmax_t{1} << 40);
  CHECK_THAT(message_of<CheckpointError>([&] {
               convert({.from = folder.path(), .to = out / "b", .format = WeightFormat::kHuggingFace});
             }),
             Contains(tokenizer + ": size: expected at most 1073741824 bytes of tokenizer and licence, found "
                                  "1099511627776"));
  CHECK(names_in(out.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("weights: what may be replaced, and what not") {
  const TemporaryFolder folder;
  save_safetensors(folder / "in.safetensors", std::vector<NamedTensor>{{"a", full({4}, 1, DType::kFloat32)}});
  const auto refusal = [&](const std::string& to, bool overwrite, std::uint64_t shard_bytes) {
    return message_of<ConfigError>([&] {
      convert({.from = folder / "in.safetensors",
               .to = folder / to,
               .shard_bytes = shard_bytes,
               .overwrite = overwrite});
    });
  };
  write_file(folder / "taken.safetensors", "old");
  CHECK_THAT(refusal("taken.safetensors", false, 0),
             Contains("expected a path that does not exist, found a file; replace"));
  CHECK(read_file(folder / "taken.safetensors") == "old");
  CHECK_THAT(refusal("in.safetensors", true, 0), Contains("expected a path apart from the source"));
  CHECK_THAT(refusal("", true, 1), Contains("expected a path apart from the source"));
  CHECK_THAT(refusal("x.safetensors", false, 1), Contains("shards are written to a folder"));
  fs::create_directory(folder / "folder");
  CHECK_THAT(refusal("folder", false, 0), Contains("expected the name of a file, found a folder"));
  write_file(folder / "plain", "old");
  CHECK_THAT(refusal("plain/", true, 1), Contains("expected the name of a folder, found a file"));

  write_file(folder / "thesis/chapter.txt", "years of work");
  CHECK_THAT(refusal("thesis", true, 1), Contains("expected a model, which --overwrite may replace"));
  write_file(folder / "home/a/b", "");
  CHECK_THAT(refusal("home", true, 1),
             Contains("expected a folder of files, which --overwrite may replace, found a in it"));
  StoreUnderTest run((folder / "run").string());
  const fs::path step = run.store.save(sample_checkpoint(3));
  CHECK_THAT(refusal("run/checkpoints/step_00000003", true, 1),
             Contains("expected a folder without the state of a run"));
  CHECK(list_checkpoints(folder / "run/checkpoints").front().complete());

  // An earlier output, and an empty folder, may go.
  CHECK_THAT(refusal("folder", false, 1), Contains("expected a path that does not exist, found a folder"));
  for (int i = 0; i < 2; ++i) {
    convert(
        {.from = folder / "in.safetensors", .to = folder / "folder/", .shard_bytes = 1, .overwrite = true});
    CHECK(hash_of_model(folder / "folder") == hash_of_model(folder / "in.safetensors"));
  }
  convert({.from = folder / "in.safetensors", .to = folder / "taken.safetensors", .overwrite = true});
  CHECK(hash_of_model(folder / "taken.safetensors") == hash_of_model(folder / "in.safetensors"));
}

TEST_CASE("weights: what a killed conversion left goes with the next one to the same place") {
  const TemporaryFolder folder;
  save_safetensors(folder / "in.safetensors", std::vector<NamedTensor>{{"a", full({4}, 1, DType::kFloat32)}});
  write_file(folder / ".out.tmp-0123/model.safetensors", "half");
  convert({.from = folder / "in.safetensors", .to = folder / "out/", .shard_bytes = 1});
  CHECK(names_in(folder.path()) == std::vector<std::string>{"in.safetensors", "out"});
}

TEST_CASE("weights: a model of a small vocabulary becomes a checkpoint of other tokens than bytes") {
  LanguageRun run;
  run.model = {.vocab_size = 40, .layers = 1, .hidden = 8, .intermediate = 8, .heads = 2};
  const auto convert_to_checkpoint = [&](const fs::path& to) {
    const TemporaryFolder folder;
    write_hf_model_files(folder.path(), run.model, "float32");
    std::vector<NamedTensor> tensors;
    for (const WeightInfo& spec : expected_tensors(*families().all().front(), run))
      tensors.push_back({spec.name, full(spec.shape, 1, DType::kFloat32)});
    save_safetensors(folder / "model.safetensors", tensors);
    convert({.from = folder.path(), .to = to, .format = WeightFormat::kMohCheckpoint});
  };
  const TemporaryFolder out;
  for (const std::int64_t vocab_size : {40, 256}) {
    run.model.vocab_size = vocab_size;
    const fs::path made = out / ("step_0000000" + std::to_string(vocab_size % 10));
    convert_to_checkpoint(made);
    CHECK(open_weights(locate_model(made))->format() == "moh checkpoint");
    CHECK_THAT(read_file(made / "config.yaml"),
               Contains(vocab_size == 256 ? "tokenizer: byte\n" : "tokenizer: other\n"));
  }
}

}  // namespace moh
