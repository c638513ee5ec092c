#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/safetensors.h"
#include "train/families/families.h"
#include "train/families/language/language_family.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

NamedParameter parameter(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
  return {name, Variable(full(shape, -1, dtype))};
}

WeightDifferences compare(std::span<const NamedParameter> parameters, const WeightFile& weights,
                          const WeightNames* names = nullptr) {
  return compare_weights(infos_of(tensors_of(parameters)), weights, names);
}

std::vector<float> values(const NamedParameter& p) {
  const Tensor wide = p.variable.value().to(DType::kFloat32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}

std::unique_ptr<WeightFile> open(const std::filesystem::path& path) {
  return open_weights(locate_model(path));
}

std::string refused_weights(const std::filesystem::path& path) {
  return message_of<CheckpointError>([&] { open(path); });
}

std::string hash_of(const std::filesystem::path& path) {
  return content_hash(*open(path), [](std::uint64_t) {});
}

/// A model in two shards and its index, with parts of the index replaced.
struct Shards {
  TemporaryFolder folder;
  std::string map = R"("a": "x.safetensors", "b": "x.safetensors", "c": "y.safetensors")";
  std::string metadata = R"({"total_size": 20})";

  Shards() {
    save_safetensors(folder / "x.safetensors",
                     std::vector<NamedTensor>{{"a", tensor_of<float>({2}, {1, 2})},
                                              {"b", tensor_of<std::uint8_t>({4}, {1, 2, 3, 4})}});
    save_safetensors(folder / "y.safetensors",
                     std::vector<NamedTensor>{{"c", tensor_of<float>({1, 2}, {3, 4})}});
  }

  std::filesystem::path index() const {
    return write_file(folder / "model.safetensors.index.json",
                      R"({"metadata": )" + metadata + R"(, "weight_map": {)" + map + "}}");
  }
  std::string refusal() const { return refused_weights(index()); }
};

}  // namespace

TEST_CASE("weights: a shard's tensors are those of the whole") {
  const Shards shards;
  const auto whole = open(shards.index());
  CHECK(whole->format() == "safetensors in 2 shards");
  REQUIRE(whole->tensors().size() == 3);
  const std::vector<NamedParameter> parameters = {parameter("a", {2}), parameter("b", {4}),
                                                  parameter("c", {1, 2})};
  CHECK(compare(parameters, *whole).none());
  load_weights(parameters, *whole);
  CHECK(values(parameters[0]) == std::vector<float>{1, 2});
  CHECK(values(parameters[1]) == std::vector<float>{1, 2, 3, 4});
  CHECK(values(parameters[2]) == std::vector<float>{3, 4});
  // The folder means the same, and one file with the same tensors has the same hash.
  CHECK(open(shards.folder.path())->tensors().size() == 3);
  save_safetensors(shards.folder / "one.safetensors",
                   std::vector<NamedTensor>{{"c", tensor_of<float>({1, 2}, {3, 4})},
                                            {"a", tensor_of<float>({2}, {1, 2})},
                                            {"b", tensor_of<std::uint8_t>({4}, {1, 2, 3, 4})}});
  CHECK(hash_of(shards.folder / "one.safetensors") == hash_of(shards.folder.path()));
}

TEST_CASE("weights: the content hash covers names, types, shapes and elements") {
  const TemporaryFolder folder;
  const auto hash = [&](const NamedTensor& tensor) {
    save_safetensors(folder / "t", std::vector<NamedTensor>{tensor}, {{"some", "thing"}});
    return hash_of(folder / "t");
  };
  const std::string first = hash({"a", tensor_of<float>({2}, {1, 2})});
  CHECK(first.size() == 32);
  CHECK(hash({"a", tensor_of<float>({2}, {1, 2})}) == first);
  CHECK(hash({"b", tensor_of<float>({2}, {1, 2})}) != first);
  CHECK(hash({"a", tensor_of<float>({1, 2}, {1, 2})}) != first);
  CHECK(hash({"a", tensor_of<float>({2}, {1, 3})}) != first);
  CHECK(hash({"a", tensor_of<std::int32_t>({2}, {0x3f800000, 0x40000000})}) != first);
}

TEST_CASE("weights: hostile and mistaken indexes") {
  Shards shards;
  const auto says = [&](const std::string& expected) {
    const std::string message = shards.refusal();
    INFO(message);
    CHECK(message.find("model.safetensors.index.json: ") != std::string::npos);
    CHECK(message.find(expected) != std::string::npos);
  };
  for (const char* name : {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "", ".", "..", ".x",
                           "a\\\\b", "x.safetensors\\u0000"}) {
    shards.map = R"("a": ")" + std::string(name) + "\"";
    says("weight_map, a: expected the plain name of a file beside the index");
  }
  shards.map = R"("a": 7)";
  says("weight_map, a: expected the name of a file, found 7");
  shards.map = "";
  says("weight_map: expected tensors, found none");
  shards.map = R"("a": "x.safetensors", "a": "y.safetensors")";
  says("a: expected this key once, found it twice");
  shards.map = R"("a": "x.safetensors", "c": "y.safetensors")";
  says("x.safetensors, b: expected a tensor that weight_map lists, found one that it lacks");
  shards.map = R"("a": "x.safetensors", "b": "x.safetensors", "c": "y.safetensors", "d": "y.safetensors")";
  says("weight_map, d: expected this tensor in y.safetensors, found no such tensor there");
  shards.map = R"("a": "x.safetensors", "b": "y.safetensors", "c": "y.safetensors")";
  says(
      "x.safetensors, b: expected this tensor in y.safetensors alone, as weight_map says, found it here, "
      "too");
}

TEST_CASE("weights: a tensor in two shards, a missing shard, a wrong total") {
  Shards shards;
  save_safetensors(shards.folder / "y.safetensors",
                   std::vector<NamedTensor>{{"c", tensor_of<float>({1, 2}, {3, 4})},
                                            {"a", tensor_of<float>({2}, {9, 9})}});
  CHECK_THAT(shards.refusal(),
             Catch::Contains("y.safetensors, a: expected this tensor in x.safetensors alone"));
  std::filesystem::remove(shards.folder / "y.safetensors");
  CHECK_THAT(shards.refusal(), Catch::Contains("y.safetensors: expected a readable file"));

  Shards other;
  other.metadata = R"({"total_size": 21})";
  CHECK_THAT(other.refusal(),
             Catch::Contains("metadata, total_size: expected 20, the bytes of all tensors, found 21"));
  other.metadata = R"({"total_size": "20"})";
  CHECK_THAT(other.refusal(), Catch::Contains("metadata, total_size: expected a number of bytes"));
  for (const char* fine : {R"({"total_size": 20.0})", "{}", "null"}) {
    other.metadata = fine;
    CHECK(open(other.index())->tensors().size() == 3);
  }
  other.metadata = R"([[[[[[[[[[[[]]]]]]]]]]]])";
  CHECK_THAT(other.refusal(), Catch::Contains("expected at most 8 levels"));
  write_file(other.folder / "model.safetensors.index.json", "{\"weight_map\": ");
  CHECK_THAT(refused_weights(other.folder.path()), Catch::Contains("expected JSON in UTF-8"));
  write_file(other.folder / "model.safetensors.index.json", "{\"weights\": {}}");
  CHECK_THAT(refused_weights(other.folder.path()), Catch::Contains("weight_map: expected an object"));
  // A shard is a file of tensors, not another index.
  write_file(other.folder / "model.safetensors.index.json",
             R"({"weight_map": {"a": "model.safetensors.index.json"}})");
  CHECK_THAT(refused_weights(other.folder.path()),
             Catch::Contains("expected a safetensors or PyTorch file, found another"));
}

TEST_CASE("weights: what a file is, its contents say") {
  const Shards shards;
  std::filesystem::copy_file(shards.folder / "x.safetensors", shards.folder / "weights.bin");
  CHECK(open(shards.folder / "weights.bin")->format() == "safetensors");
  std::filesystem::copy_file(shards.index(), shards.folder / "index.txt");
  CHECK(open(shards.folder / "index.txt")->tensors().size() == 3);
  write_file(shards.folder / "picture.safetensors", "\x89PNG and so on");
  CHECK_THAT(refused_weights(shards.folder / "picture.safetensors"),
             Catch::Contains("expected a safetensors file, the index"));
  write_file(shards.folder / "empty.safetensors", "");
  CHECK_THAT(refused_weights(shards.folder / "empty.safetensors"), Catch::Contains("found an empty file"));
  CHECK_THAT(refused_weights(shards.folder / "missing"),
             Catch::Contains("expected a model, found no such file or folder"));
}

TEST_CASE("weights: a folder is no checkpoint for its name alone, unless it is a step's") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "step_3_of_4");
  save_safetensors(folder / "step_3_of_4/model.safetensors",
                   std::vector<NamedTensor>{{"a", tensor_of<float>({1}, {1})}});
  CHECK(open(folder / "step_3_of_4")->format() == "safetensors");
  std::filesystem::rename(folder / "step_3_of_4", folder / "step_00000003");
  CHECK_THAT(refused_weights(folder / "step_00000003"), Catch::Contains("manifest.json"));
}

TEST_CASE("weights: a file beside somebody's manifest.json is not part of a checkpoint") {
  const Shards shards;
  write_file(shards.folder / "manifest.json", "{}");
  CHECK_FALSE(StoredModel(shards.folder / "x.safetensors", families()).config());
}

TEST_CASE("weights: folders without a model, or with two") {
  const Shards shards;
  CHECK_THAT(refused_weights(shards.folder.path()),
             Catch::Contains("pytorch_model.bin or checkpoints of moh, found none"));
  shards.index();
  std::filesystem::copy_file(shards.folder / "x.safetensors", shards.folder / "model.safetensors");
  CHECK_THAT(refused_weights(shards.folder.path()), Catch::Contains("found both; name one of the two files"));
}

TEST_CASE("weights: forms of other programs are refused by their names, with the way to one that is read") {
  const TemporaryFolder folder;
  write_file(folder / "llama.gguf", std::string("GGUF\3\0\0\0\0\0\0", 11));
  CHECK_THAT(refused_weights(folder / "llama.gguf"), Catch::Contains("found a GGUF file; its weights are"));
  write_file(folder / "__0_0.distcp", "PK\3\4 and so on");
  CHECK_THAT(refused_weights(folder / "__0_0.distcp"), Catch::Contains("dcp_to_torch FOLDER model.pt"));
  for (const auto& [file, found] : std::initializer_list<std::pair<const char*, const char*>>{
           {".metadata", "a checkpoint of torch.distributed.checkpoint (DCP); join it with"},
           {"zero_to_fp32.py", "a checkpoint of DeepSpeed; join it with the script in it"},
           {"adapter_config.json", "an adapter (LoRA); in Python, merge it"},
           {"consolidated.00.pth", "a model in the form of Meta's own code; lay its params.json beside"},
           {"lit_model.pth", "a model in the form of LitGPT; litgpt convert_from_litgpt"}}) {
    const TemporaryFolder one;
    write_file(one / file, "text");
    CHECK_THAT(refused_weights(one.path()),
               Catch::Contains(one.path().string() + ": expected a safetensors or") &&
                   Catch::Contains(std::string("found ") + found));
  }
}

TEST_CASE("weights: names that another program or a wrapper gave are said to be so") {
  const TemporaryFolder folder;
  std::vector<NamedParameter> parameters = {parameter("model.norm.weight", {2}),
                                            parameter("lm_head.weight", {2})};
  const auto said = [&](std::initializer_list<const char*> names) {
    std::vector<NamedTensor> tensors;
    for (const char* name : names) tensors.push_back({name, tensor_of<float>({2}, {1, 2})});
    save_safetensors(folder / "w", tensors);
    return list(compare(parameters, *open(folder / "w")));
  };
  CHECK(said({"net.model.norm.weight", "net.lm_head.weight"}) ==
        "2 missing, 2 unexpected\n  all names in the file have the prefix 'net.'; remove it in Python: "
        "{k.removeprefix('net.'): v for k, v in weights.items()}");
  CHECK(said({"net.model.norm.weight", "net.lm_head.weight", "loss.scale"}) ==
        "2 missing, 3 unexpected\n  the model's names are in the file with the prefix 'net.'; remove it in "
        "Python: {k.removeprefix('net.'): v for k, v in weights.items() if k.startswith('net.')}");
  // Parameters that the file lacks may be routers.
  parameters.push_back(parameter("wg", {2}));
  CHECK_THAT(said({"net.model.norm.weight", "net.lm_head.weight"}),
             Catch::Contains("3 missing, 2 unexpected\n  all names in the file have the prefix 'net.'"));
  // A prefix of one name explains nothing.
  CHECK_THAT(said({"net.model.norm.weight", "head"}), Catch::Contains("\n  missing: lm_head.weight"));
  for (const auto& [name, found] : std::initializer_list<std::pair<const char*, const char*>>{
           {"tok_embeddings.weight", "a model in the form of Meta's own code; lay its params.json"},
           {"transformer.h.0.attn.c_attn.weight", "a GPT-2 (nanoGPT); moh has no such model"},
           {"transformer.h.0.attn.qkv.weight", "a model in the form of LitGPT; litgpt"},
           {"model.layers.0.self_attn.q_proj.qweight", "a quantised model (GPTQ, AWQ); take"},
           {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "an adapter (LoRA); in Python"},
           {"_fsdp_wrapped_module._flat_param", "a part of a model that FSDP has sharded; in Python"}}) {
    CHECK_THAT(said({name}), Catch::Contains(std::string("\n  by its names this is ") + found));
  }
}

TEST_CASE("weights: parts are of PyTorch files alone") {
  const Shards shards;
  const auto part_of = [&](const std::filesystem::path& path) {
    return message_of<ConfigError>([&] { open_weights(locate_model(path), "ema"); });
  };
  CHECK_THAT(part_of(shards.folder / "x.safetensors"), Catch::Contains("expected none: only PyTorch files"));
  CHECK_THAT(part_of(shards.index()), Catch::Contains("found 'ema'"));
}

TEST_CASE("weights: a checkpoint of moh, by its run, its folder or its step") {
  const TemporaryFolder run;
  StoreUnderTest under_test(run.path());
  const CheckpointContents contents = sample_checkpoint(7);
  const std::filesystem::path step = under_test.store.save(contents);
  for (const std::filesystem::path& path : {run.path(), run / "checkpoints", step}) {
    const auto weights = open(path);
    CHECK(weights->format() == "moh checkpoint");
    CHECK(weights->path() == step);
    CHECK(weights->tensors().size() == contents.model.size());
  }
  CHECK(hash_of(run.path()) == hash_of(step / "model.safetensors"));
}

TEST_CASE("weights: a damaged checkpoint is noticed before its elements are used") {
  const TemporaryFolder run;
  StoreUnderTest under_test(run.path());
  const std::filesystem::path file = under_test.store.save(sample_checkpoint(7)) / "model.safetensors";
  const std::string sound = read_file(file);
  const auto refusal_with_flip = [&](std::size_t at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(file, bytes);
    return message_of<CheckpointError>([&] { hash_of(run.path()); });
  };
  const std::string last = SafetensorsFile(file).tensors().back().name;
  CHECK_THAT(refusal_with_flip(sound.size() - 1),
             Catch::Contains("model.safetensors: " + last + ": expected checksum ") &&
                 Catch::Contains("the checkpoint is damaged"));
  // A name that is another, but as well formed.
  CHECK_THAT(refusal_with_flip(sound.find(last)),
             Catch::Contains("model.safetensors: header: expected checksum "));
  // Nor are those of a tensor that has none.
  refusal_with_flip(sound.find("none"));
  const auto renamed = open(run.path());
  CHECK_THAT(message_of<CheckpointError>(
                 [&] { renamed->stream(*renamed->find("oone"), [](std::span<const std::byte>) {}); }),
             Catch::Contains("model.safetensors: header: expected checksum "));
  write_file(file, sound);
  CHECK(hash_of(run.path()).size() == 32);
}

TEST_CASE("weights: a checkpoint in a folder of another step's name is refused") {
  const TemporaryFolder run;
  StoreUnderTest under_test(run.path());
  const std::filesystem::path step = under_test.store.save(sample_checkpoint(7));
  const std::filesystem::path renamed = step.parent_path() / "step_00000008";
  std::filesystem::rename(step, renamed);
  CHECK_THAT(
      message_of<CheckpointError>([&] { open(renamed); }),
      Catch::Contains("step_00000008/manifest.json: step: expected 8, found 7; the folder was renamed"));
}

TEST_CASE("weights: differences between a model and a file") {
  const TemporaryFolder folder;
  const Tensor embedding = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  save_safetensors(
      folder / "w",
      std::vector<NamedTensor>{{"model.embed_tokens.weight", embedding},
                               {"lm_head.weight", embedding.clone()},
                               {"model.layers.0.self_attn.rotary_emb.inv_freq", tensor_of<float>({1}, {1})},
                               {"model.norm.weight", tensor_of<float>({3}, {1, 2, 3})},
                               {"extra", tensor_of<float>({1}, {1})}});
  const std::vector<NamedParameter> parameters = {parameter("model.embed_tokens.weight", {2, 2}),
                                                  parameter("model.norm.weight", {2}), parameter("wq", {2})};
  const auto weights = open(folder / "w");
  const WeightDifferences found = compare(parameters, *weights, &language_family().weight_names());
  CHECK_FALSE(found.none());
  CHECK(found.missing == std::vector<std::string>{"wq"});
  CHECK(found.unexpected == std::vector<std::string>{"extra"});
  CHECK(found.mismatched == std::vector<std::string>{"model.norm.weight: expected [2], found [3]"});
  CHECK(found.redundant.size() == 2);
  CHECK(compare(parameters, *weights).unexpected.size() == 3);  // of no family
  // Nothing is changed where a shape differs.
  CHECK_THAT(message_of<CheckpointError>([&] { load_weights(parameters, *weights); }),
             Catch::Contains("w: model.norm.weight: expected [2], found [3]"));
  CHECK(values(parameters[0]) == std::vector<float>{-1, -1, -1, -1});
  // An output matrix of its own is no copy of the embedding.
  embedding.data<float>()[3] = 5;
  save_safetensors(folder / "w",
                   std::vector<NamedTensor>{{"model.embed_tokens.weight", embedding},
                                            {"lm_head.weight", tensor_of<float>({2, 2}, {1, 2, 3, 4})}});
  CHECK(compare(std::span(parameters).first(1), *open(folder / "w"), &language_family().weight_names())
            .unexpected == std::vector<std::string>{"lm_head.weight"});
}

TEST_CASE("weights: loading converts, over more than one block") {
  const TemporaryFolder folder;
  const std::int64_t count = kStreamBlockBytes / 8 + 3;
  const Tensor wide = empty({count}, DType::kFloat64);
  for (std::int64_t i = 0; i < count; ++i) wide.data<double>()[i] = static_cast<double>(i) / 7;
  save_safetensors(folder / "w", std::vector<NamedTensor>{
                                     {"wide", wide},
                                     {"bf16", tensor_of<bfloat16>({2}, {bfloat16(1.5F), bfloat16(-2.0F)})},
                                     {"whole", tensor_of<std::int64_t>(Shape{}, {-9})},
                                     {"none", empty({0, 4}, DType::kFloat32)}});
  const std::vector<NamedParameter> parameters = {
      parameter("wide", {count}), parameter("bf16", {2}), parameter("whole", Shape{}, DType::kBFloat16),
      parameter("none", {0, 4}, DType::kBFloat16), parameter("not there", {1})};
  load_weights(parameters, *open(folder / "w"));
  for (std::int64_t i : {std::int64_t{0}, std::int64_t{1}, count - 4, count - 3, count - 1}) {
    CHECK(parameters[0].variable.value().data<float>()[i] == static_cast<float>(static_cast<double>(i) / 7));
  }
  CHECK(values(parameters[1]) == std::vector<float>{1.5F, -2.0F});
  CHECK(values(parameters[2]) == std::vector<float>{-9});
  CHECK(values(parameters[4]) == std::vector<float>{-1});  // left alone
}

TEST_CASE("weights: types that do not convert are refused before anything is changed") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[4,8]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write_file(folder / "w", length + header + std::string(8, '\0'));
  const std::vector<NamedParameter> parameters = {parameter("a", {1}), parameter("b", {4})};
  const auto weights = open(folder / "w");
  CHECK(compare(parameters, *weights).none());
  CHECK_THAT(message_of<CheckpointError>([&] { load_weights(parameters, *weights); }),
             Catch::Contains("b: expected a type that converts to float32, found F8_E4M3"));
  CHECK(values(parameters[0]) == std::vector<float>{-1});
}

}  // namespace moh
