#include "train/base/formats/torch/torch_file.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "train/base/formats/torch/torch_weights.h"

namespace moh {

namespace {

using namespace test::pickle;
using Catch::Contains;
using test::old_torch;
using test::torch_zip;

/// A file of these bytes that is gone when the test is.
class SavedFile {
 public:
  explicit SavedFile(const std::string& bytes) : path_(write_file(folder_ / "x.pt", bytes)) {}
  operator const std::filesystem::path&() const { return path_; }  // NOLINT: it stands for its path

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<float> read_floats(const TorchFile& file, const std::string& path) {
  const TorchLeaf* leaf = file.find(path);
  REQUIRE(leaf != nullptr);
  REQUIRE(leaf->kind == TorchKind::kTensor);
  std::vector<float> values(leaf->tensor->numel());
  file.read(*leaf->tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

/// A tensor of `numel` elements, all that its storage "0" has.
std::string vector_tensor(std::int64_t numel) {
  return tensor(storage("0", "FloatStorage", numel), 0, {numel}, {1});
}

std::vector<std::string> names(const WeightFile& weights) {
  std::vector<std::string> all;
  for (const WeightInfo& info : weights.tensors()) all.push_back(info.name);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("torch: views of one storage are gathered, whatever their strides") {
  const std::string s = storage("0", "FloatStorage", 6);
  const SavedFile saved(torch_zip(whole(dict({text("transposed"), tensor(s, 0, {3, 2}, {1, 3}),  //
                                              text("column"), tensor(s, 1, {2}, {3}),            //
                                              text("expanded"), tensor(s, 5, {2, 2}, {0, 0}),    //
                                              text("scalar"), tensor(s, 4, {}, {}),              //
                                              text("empty"), tensor(s, 6, {0, 3}, {3, 1})})),
                                  {floats({0, 1, 2, 3, 4, 5})}));
  const TorchFile file(saved);
  CHECK(read_floats(file, "transposed") == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(read_floats(file, "column") == std::vector<float>{1, 4});
  CHECK(read_floats(file, "expanded") == std::vector<float>{5, 5, 5, 5});
  CHECK(read_floats(file, "scalar") == std::vector<float>{4});
  CHECK(read_floats(file, "empty").empty());
}

TEST_CASE("torch: a view that reaches far is read in windows") {
  constexpr std::int64_t kRows = 64, kStride = 20'000;
  std::vector<float> values(kRows * kStride);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const std::string s = storage("0", "FloatStorage", kRows * kStride);
  const SavedFile saved(torch_zip(whole(dict({text("w"), tensor(s, 7, {2, kRows}, {1, kStride})})), {bytes}));
  const auto found = read_floats(TorchFile(saved), "w");
  REQUIRE(found.size() == 2 * kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    CHECK(found[row] == values[row * kStride + 7]);
    CHECK(found[kRows + row] == values[row * kStride + 8]);
  }
}

TEST_CASE("torch: classes that moh does not know are opaque, and the tensors beside them load") {
  const std::string unknown = call(global("vendor.things", "Thing"), {text("a"), integer(1)});
  const std::string built =
      global("vendor.things", "Config") + ")\x81" + dict({text("depth"), integer(3)}) + "b";
  const SavedFile saved(torch_zip(whole(dict({text("thing"), unknown, text("config"), built, text("model"),
                                              dict({text("w"), vector_tensor(2)})})),
                                  {floats({1, 2})}));
  const TorchFile file(saved);
  CHECK(file.find("thing")->kind == TorchKind::kOpaque);
  CHECK(std::get<std::string_view>(file.find("thing")->value) == "vendor.things.Thing");
  CHECK(file.find("config/depth")->value == TorchPlain(std::int64_t{3}));
  CHECK(read_floats(file, "model/w") == std::vector<float>{1, 2});
}

TEST_CASE("torch: what runs commands is refused by name wherever it stands, and does not run") {
  const TemporaryFolder folder;
  const std::string trace = (folder / "trace").string();
  const std::string command = text("touch " + trace);
  for (const auto& [module, name] :
       {std::pair("os", "system"), {"posix", "system"}, {"nt", "system"}, {"sys", "setprofile"}}) {
    INFO(module << "." << name);
    const std::string attack = call(global(module, name), {command});
    const std::string hidden = call(global("vendor", "Thing"), {attack});
    for (const std::string& object :
         {attack, hidden, dict({text("w"), vector_tensor(1), text("x"), attack}), global(module, name)}) {
      const SavedFile saved(torch_zip(whole(object), {floats({1})}));
      CHECK_THAT(message_of<CheckpointError>([&] { TorchFile file(saved); }),
                 Contains(std::string("found ") + module + "." + name) && Contains("do not use it"));
    }
  }
  const std::string stacked = text("os") + text("system") + "\x93" + tuple({command}) + "R";
  const SavedFile saved(torch_zip(whole(stacked, 4)));
  CHECK_THROWS_AS(TorchFile(saved), CheckpointError);
  // Any other call is a name, and is not made either.
  const std::string other_call = call(global("subprocess", "getoutput"), {command});
  const SavedFile named(torch_zip(whole(dict({text("x"), other_call}))));
  CHECK(std::get<std::string_view>(TorchFile(named).find("x")->value) == "subprocess.getoutput");
  CHECK(!std::filesystem::exists(trace));
}

TEST_CASE("torch: tensors of newer and older PyTorch, parameters and subclasses") {
  const std::string hooks = call(global("collections", "OrderedDict"), {});
  const std::string s = storage("0", "FloatStorage", 2);
  const std::string v1 =
      call(global("torch._utils", "_rebuild_tensor"), {s, integer(0), shape({2}), shape({1})});
  const std::string bytes = tuple({text("storage"), global("torch.storage", "UntypedStorage"), text("0"),
                                   text("cpu"), integer(8)}) +
                            "Q";
  const std::string v3 =
      call(global("torch._utils", "_rebuild_tensor_v3"),
           {bytes, integer(1), shape({3}), shape({1}), "\x89", hooks, global("torch", "uint16"), "N"});
  const std::string parameter = call(global("torch._utils", "_rebuild_parameter"), {v1, "\x88", hooks});
  const std::string subclass = call(global("torch._tensor", "_rebuild_from_type_v2"),
                                    {global("torch._utils", "_rebuild_tensor"), global("vendor", "Tensor"),
                                     tuple({s, integer(0), shape({2}), shape({1})}), dict({})});
  const SavedFile saved(torch_zip(
      whole(dict({text("v1"), v1, text("v3"), v3, text("parameter"), parameter, text("subclass"), subclass})),
      {floats({1, 2})}));
  const TorchFile file(saved);
  for (const std::string name : {"v1", "parameter", "subclass"}) {
    CHECK(read_floats(file, name) == std::vector<float>{1, 2});
  }
  const TorchTensor& v3_tensor = *file.find("v3")->tensor;
  CHECK(v3_tensor.dtype->name == "U16");
  std::vector<std::uint16_t> halves(3);
  file.read(v3_tensor, 0, std::as_writable_bytes(std::span(halves)));
  CHECK(halves == std::vector<std::uint16_t>{0x3f80, 0, 0x4000});
}

TEST_CASE("torch: containers, dtypes and numbers of NumPy are values") {
  const std::string dtype = call(global("numpy", "dtype"), {text("f8"), "\x89", "\x88"});
  const std::string loss = call(global("numpy.core.multiarray", "scalar"),
                                {dtype, "C\x08" + std::string("\0\0\0\0\0\0\xf8\x3f", 8)});
  const std::string encoded =
      call(global("_codecs", "encode"), {text(std::string("\0\0\0\0\0\0\xc3\xb8?", 9)), text("latin1")});
  const std::string old_loss = call(global("numpy.core.multiarray", "scalar"), {dtype, encoded});
  const SavedFile saved(torch_zip(whole(
      dict({text("loss"), loss, text("old_loss"), old_loss, text("dtype"), global("torch", "bfloat16"),
            text("size"), call(global("torch", "Size"), {shape({4, 5})}), text("set"),
            call(global("builtins", "set"), {list({integer(7)})}), text("nothing"), "]", text("pairs"),
            call(global("collections", "OrderedDict"), {list({tuple({text("k"), "N"})})}), text("slots"),
            global("vendor", "Slots") + ")\x81" + tuple({"N", dict({text("a"), "\x88"})}) + "b", text("big"),
            "\x8a\x09" + std::string(9, '\x7f')}))));
  const TorchFile file(saved);
  CHECK(file.find("loss")->value == TorchPlain(1.5));
  CHECK(file.find("old_loss")->value == TorchPlain(1.5));
  CHECK(file.find("dtype")->value == TorchPlain(std::string_view("torch.bfloat16")));
  CHECK(file.find("size/1")->value == TorchPlain(std::int64_t{5}));
  CHECK(file.find("set/0")->value == TorchPlain(std::int64_t{7}));
  CHECK(file.find("nothing")->kind == TorchKind::kEmpty);
  CHECK(file.find("nothing")->value == TorchPlain(std::string_view("[]")));
  CHECK(file.find("pairs/k")->value == TorchPlain(TorchNone{}));
  CHECK(file.find("slots/a")->value == TorchPlain(true));
  CHECK(file.find("big")->kind == TorchKind::kOpaque);
  CHECK(file.find("none") == nullptr);
}

TEST_CASE("torch: containers that contain themselves are leaves where they come round") {
  const SavedFile saved(torch_zip(
      whole("}q\x01(" + text("self") + "h\x01" + text("w") + vector_tensor(1) + "u"), {floats({9})}));
  const TorchFile file(saved);
  CHECK(file.find("self")->kind == TorchKind::kOpaque);
  CHECK(std::get<std::string_view>(file.find("self")->value) == "a container that contains itself");
  CHECK(read_floats(file, "w") == std::vector<float>{9});
}

TEST_CASE("torch: objects that all refer to each other are listed once each") {
  std::string objects = "](";
  const std::string node = global("vendor", "Node") + ")\x81";
  for (char i = 0; i < 20; ++i) objects += node + "q" + i;
  objects += "e";
  for (char i = 0; i < 20; ++i) {
    objects += "h" + std::string(1, i) + "}" + text("all") + "](";
    for (char k = 0; k < 20; ++k) objects += "h" + std::string(1, k);
    objects += "esb0";
  }
  const SavedFile saved(torch_zip(whole(objects)));
  const TorchFile file(saved);
  CHECK(file.leaves().size() < 1000);
  CHECK(file.find("0/all/0")->kind == TorchKind::kOpaque);
}

TEST_CASE("torch: a whole module is refused with what to do, and a state_dict beside it loads") {
  const std::string tensors = dict({text("w"), vector_tensor(1)});
  const std::string net = global("vendor", "Net") + ")\x81" +
                          dict({text("training"), "\x88", text("_parameters"), tensors, text("_buffers"),
                                dict({}), text("_modules"), dict({text("inner"), tensors})}) +
                          "b";
  const auto message = [](const std::string& object, const std::string& part = "") {
    const SavedFile saved(torch_zip(whole(object), {floats({1})}));
    return message_of<CheckpointError>([&] { open_torch_weights(saved, part); });
  };
  const auto check_refused = [&](const std::string& said, const std::string& model) {
    CHECK_THAT(said,
               Contains("model " + model + ": expected a dict of tensors") &&
                   Contains("found a whole torch.nn.Module, vendor.Net; in Python, where its class is") &&
                   Contains("torch.save(model.state_dict(), NEW)"));
  };
  check_refused(message(net), ".");
  check_refused(message(dict({text("epoch"), integer(3), text("model"), net})), "model");
  check_refused(message(dict({text("model"), net, text("other"), tensors})), "model");
  const std::string lightning = dict({text("state_dict"), tensors, text("hyper_parameters"),
                                      dict({text("loss"), net + "q\x05"}), text("again"), "h\x05"});
  check_refused(message(lightning, "loss"), "hyper_parameters/loss");
  check_refused(message(lightning, "again"), "again");
  const SavedFile saved(torch_zip(whole(lightning), {floats({1})}));
  CHECK(names(*open_torch_weights(saved)) == Names{"w"});
  CHECK(TorchFile(saved).models().size() == 3);
}

TEST_CASE("torch: one dict under two names is a model under both") {
  const std::string model = dict({text("w"), vector_tensor(1)});
  const SavedFile saved(
      torch_zip(whole(dict({text("model"), model + "q\x05", text("ema"), "h\x05"})), {floats({1})}));
  CHECK(TorchFile(saved).choose_model("model").part == "model");
  CHECK(TorchFile(saved).choose_model().part == "ema");
}

TEST_CASE("torch: the part to load is chosen by name, as the programs that trained the model do") {
  const std::string model = dict({text("w"), vector_tensor(1)});
  const auto chosen = [&](std::initializer_list<std::string> items, const std::string& part = "") {
    const SavedFile saved(torch_zip(whole(dict(items)), {floats({1})}));
    return TorchFile(saved).choose_model(part).part;
  };
  CHECK(chosen({text("model"), model, text("ema"), model}) == "ema");
  CHECK(chosen({text("model"), model, text("ema"), model}, "model") == "model");
  CHECK(chosen({text("model_ema"), model, text("model"), model}) == "model");
  CHECK(chosen({text("lr"), vector_tensor(1), text("state_dict"), model}) == "state_dict");
  CHECK(chosen({text("anything"), model}) == "anything");
  CHECK(chosen({text("w"), vector_tensor(1)}) == ".");
  CHECK(chosen({text("a"), dict({text("generator"), model})}, "generator") == "a/generator");
  const std::string state =
      dict({text("state"), dict({integer(0), dict({text("exp_avg"), vector_tensor(1)})})});
  CHECK(chosen({text("optimizer"), state, text("net"), model}) == "net");
  const std::string module = global("vendor", "Trainer") + ")\x81" + dict({text("net"), model}) + "b";
  CHECK(chosen({text("trainer"), module}) == "trainer/net");

  const auto message = [&](std::initializer_list<std::string> items, const std::string& part = "") {
    return message_of<CheckpointError>([&] { chosen(items, part); });
  };
  CHECK_THAT(message({text("a"), model, text("b"), model}),
             Contains("models: expected one, or one with a usual name, found a, b; say which part to take"));
  CHECK_THAT(message({text("a"), model}, "ema"), Contains("part ema: expected one of a, found none"));
  CHECK_THAT(message({text("a"), integer(1)}),
             Contains("expected a dict of tensors, such as a model's state_dict()"));
}

TEST_CASE("torch: wrappers' prefixes that all names share are taken off") {
  const auto names_of = [](std::initializer_list<std::string> keys) {
    std::string items;
    for (const std::string& key : keys) items += text(key) + vector_tensor(1);
    const SavedFile saved(torch_zip(whole("}(" + items + "u"), {floats({1})}));
    return names(*open_torch_weights(saved));
  };
  CHECK(names_of({"module.a", "module.b.c"}) == Names{"a", "b.c"});
  CHECK(names_of({"_orig_mod.module.a", "_orig_mod.module.b"}) == Names{"a", "b"});
  CHECK(names_of({"module.a", "b"}) == Names{"module.a", "b"});
  CHECK(names_of({"module.", "module.a"}) == Names{"module.", "module.a"});
  CHECK(names_of({"_forward_module.a", "_forward_module.b"}) == Names{"a", "b"});
  CHECK(names_of({"module._fsdp_wrapped_module.l.0._fsdp_wrapped_module.w",
                  "module._fsdp_wrapped_module.l.0._checkpoint_wrapped_module._orig_mod.b"}) ==
        Names{"l.0.w", "l.0.b"});
  CHECK(names_of({"my_orig_mod.a", "l._orig_mod."}) == Names{"my_orig_mod.a", "l._orig_mod."});
  CHECK_THAT(message_of<CheckpointError>([&] {
               names_of({"a", "_orig_mod.a"});
             }),
             Contains("tensor a: expected this name once, without those of wrappers, found it twice"));
}

TEST_CASE("torch: what a weight file cannot hold is refused with its name") {
  const auto message = [](const std::string& object) {
    const SavedFile saved(
        torch_zip(whole(dict({text("a"), vector_tensor(4), text("w"), object})), {std::string(16, '\0')}));
    return message_of<CheckpointError>([&] { open_torch_weights(saved); });
  };
  const std::string complex = storage("0", "ComplexDoubleStorage", 1);
  CHECK_THAT(message(tensor(complex, 0, {1}, {1})),
             Contains("tensor w: expected a dtype that safetensors files have too, "
                      "found torch.complex128"));
  CHECK_THAT(
      message(tensor(storage("0", "FloatStorage", 4), 0, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1})),
      Contains("tensor w: expected at most 6 axes, found 7"));
  CHECK_THAT(message(call(global("torch._utils", "_rebuild_qtensor"), {storage("0", "QInt8Storage", 16)})),
             Contains("tensor w: expected a tensor, found an object of torch._utils._rebuild_qtensor"));
}

TEST_CASE("torch: a state dict with a name twice is refused") {
  const SavedFile saved(
      torch_zip(whole(dict({text("w"), vector_tensor(1), text("w"), vector_tensor(1)})), {floats({1})}));
  CHECK_THAT(message_of<CheckpointError>([&] { TorchFile file(saved); }),
             Contains("expected this name once, found it twice"));
}

TEST_CASE("torch: the old format keeps views of storages in their keys") {
  const std::string view = tuple({text("storage"), global("torch", "FloatStorage"), text("k"), text("cpu"),
                                  integer(4), tuple({text("v"), integer(1), integer(2)})}) +
                           "Q";
  const std::string object = dict({text("w"), tensor(view, 0, {2}, {1})});
  const SavedFile saved(old_torch(whole(object), whole(list({text("k")})),
                                  test::little_endian_bytes(4, 8) + floats({1, 2, 3, 4})));
  const TorchFile file(saved);
  CHECK(file.is_old_format());
  CHECK(read_floats(file, "w") == std::vector<float>{2, 3});
}

TEST_CASE("torch: files are told by their contents") {
  const auto looks = [](const std::string& bytes) {
    const SavedFile saved(bytes);
    return looks_like_torch_file(saved);
  };
  CHECK(looks(torch_zip(whole("}"))));
  CHECK(looks(old_torch(whole("}"), whole("]"), "")));
  CHECK(looks(std::string(257, '\0') + "ustar\0"));
  CHECK(!looks(""));
  CHECK(!looks(whole("}")));
  // A safetensors file whose header's length reads "PK\3\4".
  CHECK(!looks(std::string("PK\3\4\0\0\0\0{\"a\"", 12)));
  CHECK_THROWS_AS(looks_like_torch_file("/nonexistent/file"), CheckpointError);
}

TEST_CASE("torch: a file describes its models, values, other tensors and objects") {
  const std::string model = dict({text("w"), vector_tensor(2)});
  const std::string optimizer =
      dict({text("state"), dict({integer(0), dict({text("step"), vector_tensor(2)})}), text("betas"),
            tuple({"G?\xe0" + std::string(6, '\0'), integer(1)})});
  const SavedFile saved(
      torch_zip(whole(dict({text("ema"), model, text("opt"), optimizer, text("name"), text("\x1b[2J"),
                            text("thing"), call(global("vendor", "Thing"), {})})),
                {floats({1, 2})}));
  std::string all;
  for (const WeightSection& section : TorchFile(saved).describe()) {
    all += section.title + ":";
    for (const auto& [name, value] : section.rows) all += " " + name + " = " + value + ";";
    all += "\n";
  }
  CHECK(all ==
        "models: ema = 1 tensor, 8 bytes;\n"
        "values: opt/betas = [0.5, 1]; name = '\\x1b[2J';\n"
        "other tensors: opt = 1 tensor;\n"
        "opaque objects: thing = vendor.Thing;\n");
}

TEST_CASE("torch: a storage with another checksum is refused when its tensor is read") {
  const SavedFile saved(
      test::zip_bytes({{.name = "x/data.pkl", .bytes = whole(dict({text("w"), vector_tensor(1)}))},
                       {.name = "x/data/0", .bytes = floats({1}), .crc32 = 1}}));
  const TorchFile file(saved);
  CHECK_THAT(message_of<CheckpointError>([&] { read_floats(file, "w"); }),
             Contains("zip entry x/data/0: expected CRC-32 1, found"));
}

}  // namespace moh
