#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/opening_cost.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "train/base/formats/torch/torch_file.h"

namespace moh {

namespace {

using namespace test::pickle;
using Catch::Contains;
using test::little_endian_bytes;
using test::torch_zip;

/// "accepted", or the message for a file with this pickle and one storage of four float32.
std::string pickle_answer(const std::string& pickle) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "x", torch_zip(pickle, {std::string(16, '\0')}));
  try {
    const TorchFile file(path);
  } catch (const CheckpointError& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ": "));
    return message.substr(path.size() + 2);
  }
  return "accepted";
}

std::string tensor_answer(const std::string& storage_id, std::int64_t offset,
                          std::initializer_list<std::int64_t> sizes,
                          std::initializer_list<std::int64_t> strides) {
  return pickle_answer(whole(dict({text("w"), tensor(storage_id, offset, sizes, strides)})));
}

const std::string four_floats = storage("0", "FloatStorage", 4);
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("torch: hostile pickle: every byte as an opcode on an empty stack is refused or harmless") {
  // Opcodes that need no values; all others find the stack or the text too short, or are no opcodes.
  const std::string harmless = "(N])}\x88\x89\x8f";
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto byte = static_cast<char>(opcode);
    INFO("opcode " << opcode);
    const std::string message = pickle_answer(whole(std::string(1, byte)));
    const bool pushes = harmless.find(byte) != std::string::npos && byte != '(';
    CHECK((message == "accepted") == pushes);
    if (!pushes) CHECK_THAT(message, Catch::StartsWith("data.pkl, byte "));
  }
}

TEST_CASE("torch: hostile pickle: every opcode with too few values is refused") {
  for (const std::string opcode : {"a", "b", "s", "R", "\x81", "\x93"}) {
    CHECK_THAT(pickle_answer(whole("N" + opcode)), Contains("values on the stack for the opcode"));
    CHECK_THAT(pickle_answer(whole("NN(" + opcode)), Contains("values on the stack for the opcode, found 0"));
  }
  for (const std::string opcode : {"e", "t", "u", "1", "\x90", "\x91"}) {
    CHECK_THAT(pickle_answer(whole("N" + opcode)), Contains("expected a mark on the stack, found none"));
  }
  CHECK_THAT(pickle_answer(whole("NN\x92")),
             Contains("expected 1 values on the stack for the opcode, found 0"));
  CHECK_THAT(pickle_answer(whole("")), Contains("expected one value at the end, found 0"));
  CHECK_THAT(pickle_answer(whole("NN")), Contains("expected one value at the end, found 2"));
  CHECK_THAT(pickle_answer(whole("N(")), Contains("expected one value at the end, found 1 and 1 marks"));
}

TEST_CASE("torch: hostile pickle: values of the wrong kind are refused") {
  CHECK_THAT(pickle_answer(whole("NNR")), Contains("expected a tuple of arguments"));
  CHECK_THAT(pickle_answer(whole("N)R")), Contains("expected a class or function"));
  CHECK_THAT(pickle_answer(whole("NQ)R")), Contains("expected a class or function"));
  CHECK_THAT(pickle_answer(whole(global("a", "b") + "NR")), Contains("expected a tuple of arguments"));
  CHECK_THAT(pickle_answer(whole(global("a", "b") + ")N\x92")), Contains("expected a dict of arguments"));
  CHECK_THAT(pickle_answer(whole("NNb")), Contains("expected an object to set the state of"));
  CHECK_THAT(pickle_answer(whole(global("a", "b") + ")R}b}b")), Contains("a second one"));
  CHECK_THAT(pickle_answer(whole("NNa")), Contains("expected a container to put items into"));
  CHECK_THAT(pickle_answer(whole("]NNs")), Contains("expected a container to put items into"));
  CHECK_THAT(pickle_answer(whole("}(Nu")), Contains("expected a value for each key"));
  CHECK_THAT(pickle_answer(whole("NN\x93")), Contains("expected a name"));
  CHECK_THAT(pickle_answer(whole(text(std::string(2000, 'a')) + text("b") + "\x93")),
             Contains("expected a name of at most 1024"));
  CHECK_THAT(pickle_answer(whole("c" + std::string(2000, 'a') + "\nb\n")),
             Contains("a name of at most 1024"));
}

TEST_CASE("torch: hostile pickle: memos that were never set are refused") {
  CHECK_THAT(pickle_answer(whole("h\x05")), Contains("expected a memo that was set, found memo 5"));
  CHECK_THAT(pickle_answer(whole("j\xff\xff\xff\xff")), Contains("found memo 4294967295"));
  CHECK_THAT(pickle_answer(whole("Nq\x07h\x06")), Contains("found memo 6"));
  CHECK_THAT(pickle_answer(whole("Nr\xff\xff\xff\x7f")), Contains("a memo below 1048576, found 2147483647"));
  CHECK(pickle_answer(whole("Nr\xff\xff\x0f")) != "accepted");  // ends in the middle
  CHECK(pickle_answer(whole(std::string("Nr\xff\xff\x0f\0"
                                        "0j\xff\xff\x0f\0",
                                        12))) == "accepted");
}

TEST_CASE("torch: hostile pickle: what torch.save does not write is refused with the reason") {
  CHECK_THAT(pickle_answer("}."), Contains("expected a pickle of protocol 2 to 5"));
  CHECK_THAT(pickle_answer(""), Contains("expected a pickle of protocol 2 to 5"));
  CHECK_THAT(pickle_answer(whole("N", 6)), Contains("expected pickle protocol 2 to 5, found 6"));
  CHECK_THAT(pickle_answer(whole("N", 1)), Contains("expected pickle protocol 2 to 5, found 1"));
  CHECK_THAT(pickle_answer(whole("I7\n")), Contains("the opcode I of protocol 0 or 1; save the file again"));
  CHECK_THAT(pickle_answer(whole("(cos\nsystem\no")), Contains("found os.system"));
  CHECK_THAT(pickle_answer(whole("(ios\nsystem\n")), Contains("the opcode i of protocol 0 or 1"));
  CHECK_THAT(pickle_answer(whole("\x82\x01")), Contains("a number of the extension registry"));
  CHECK_THAT(pickle_answer(whole("\x97")), Contains("a buffer kept elsewhere"));
  CHECK_THAT(pickle_answer(whole("N") + "x"), Contains("expected 4 bytes, where its object ends, found 5"));
  CHECK_THAT(pickle_answer("\x80\x02N"), Contains("expected 1 more bytes, found 0; the pickle is truncated"));
}

TEST_CASE("torch: hostile pickle: lengths that lie are refused before anything is read") {
  CHECK_THAT(pickle_answer(whole("X" + little_endian_bytes(0xffffffff, 4))),
             Contains("expected 4294967295 more bytes, found 1"));
  CHECK_THAT(pickle_answer(whole("\x8d" + little_endian_bytes(~0ULL, 8))),
             Contains("expected 18446744073709551615 more bytes"));
  CHECK_THAT(pickle_answer(whole("\x96" + little_endian_bytes(1ULL << 63, 8))),
             Contains("9223372036854775808 more bytes"));
  CHECK_THAT(pickle_answer(whole("\x95" + little_endian_bytes(99, 8) + "N")),
             Contains("a frame within the pickle"));
  CHECK_THAT(pickle_answer(whole("T" + little_endian_bytes(~0ULL, 4))),
             Contains("expected a length, found -1"));
  CHECK_THAT(pickle_answer(whole("\x8b" + little_endian_bytes(1ULL << 31, 4))),
             Contains("expected a length, found -2147483648"));
}

TEST_CASE("torch: hostile pickle: nesting is limited, and takes no stack of the program") {
  std::string lists(1'000'000, ']');
  lists += std::string(999'999, 'a');
  CHECK_THAT(pickle_answer(whole(lists)),
             Contains("expected at most 128 containers in each other, found more"));
  CHECK_THAT(pickle_answer(whole("N" + std::string(500'000, '\x85'))),
             Contains("expected at most 128 containers"));
  CHECK_THAT(pickle_answer(whole(std::string(2'000'000, ']'))),
             Contains("expected at most 1048576 values, found more"));
  CHECK_THAT(pickle_answer(whole(std::string(2'000'000, '('))), Contains("expected fewer marks"));
  CHECK_THAT(pickle_answer(whole("N" + std::string(2'000'000, '2'))),
             Contains("1048576 values on the stack, found more"));
  std::string parameters = four_floats;
  for (int i = 0; i < 50; ++i) parameters = call(global("torch._utils", "_rebuild_parameter"), {parameters});
  CHECK(pickle_answer(whole(dict({text("w"), parameters}))) == "accepted");  // opaque
}

TEST_CASE("torch: hostile pickle: small files that stand for much are refused") {
  // Sixty lists, each twice in the next one.
  std::string doubling = "]q\x01";
  for (int i = 0; i < 60; ++i) doubling += "\x86";
  std::string pairs = "N";
  for (int i = 0; i < 60; ++i) pairs += "2\x86";
  CHECK_THAT(pickle_answer(whole(pairs)), Contains("expected at most 1048576 values"));
  // One long name, under which thousands of values stand.
  const std::string name = text(std::string(60'000, 'k'));
  std::string values = "](";
  for (int i = 0; i < 3000; ++i) values += "}h\x01Ns";
  CHECK_THAT(pickle_answer(whole(name +
                                 "q\x01"
                                 "0" +
                                 values + "e")),
             Contains("67108864 bytes of names"));
  CHECK_THAT(pickle_answer(whole(dict({text(std::string(70'000, 'k')), "N"}))),
             Contains("expected names of at most 65536 bytes"));
  // A tensor of a petabyte that repeats one element.
  CHECK_THAT(tensor_answer(four_floats, 0, {1LL << 50}, {0}),
             Contains("expected at most 1073741824 bytes for a tensor that repeats its elements, found "
                      "4503599627370496"));
  // Sixty-four of a gibibyte, each within that bound.
  std::string gibibytes = "}(";
  for (int i = 0; i < 64; ++i)
    gibibytes += text("w" + std::to_string(i)) + test::pickle::tensor(four_floats, 0, {1 << 28}, {0});
  CHECK_THAT(pickle_answer(whole(gibibytes + "u")), Contains("tensors: expected at most 10737") &&
                                                        Contains("bytes in all, for a file of ") &&
                                                        Contains("without expand()"));
}

TEST_CASE("torch: hostile pickle: bombs cost bounded memory and time") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& pickle) {
    const std::string path = write_file(folder / "x", torch_zip(pickle));
    const OpeningCost cost = cost_of_opening([&] { TorchFile file(path); });
    INFO(cost.megabytes << " MB, " << cost.seconds << " s");
    CHECK_THAT(cost.message, Contains(path));
#ifndef MOH_SANITIZED  // sanitizers keep freed memory back, and take their time
    CHECK(cost.megabytes < static_cast<double>(pickle.size()) / 1e6 + 256);
    CHECK(cost.seconds < 5);
#endif
  };
  constexpr std::size_t kLarge = 20'000'000;
  check(whole(std::string(kLarge, '}')));
  check(whole("]" + std::string(kLarge, '2')));
  std::string items = "](";
  for (std::size_t i = 0; i < kLarge / 3; ++i) items += "]Na";
  check(whole(items));
  check("\x80\x02X" + little_endian_bytes(kLarge, 4) + std::string(kLarge, 'a'));
}

TEST_CASE("torch: hostile pickle: a large object that many values refer to is looked at once") {
  std::string attributes, values;
  for (int i = 0; i < 100'000; ++i) attributes += text("a" + std::to_string(i)) + "N";
  for (int i = 0; i < 300'000; ++i) values += text("v" + std::to_string(i)) + "h\x01";
  const std::string object = global("vendor", "Thing") + ")\x81}(" + attributes + "K\x01Nubq\x01";
  const TemporaryFolder folder;
  const std::string path =
      write_file(folder / "x", torch_zip(whole("}(" + text("first") + object + values + "u")));
  const OpeningCost cost = cost_of_opening([&] { TorchFile file(path); });
  INFO(cost.seconds << " s");
  CHECK(cost.message == "accepted");
#ifndef MOH_SANITIZED  // sanitizers take their time
  CHECK(cost.seconds < 5);
#endif
}

TEST_CASE("torch: hostile tensor: sizes, strides and offsets stay within the storage") {
  CHECK(tensor_answer(four_floats, 0, {2, 2}, {2, 1}) == "accepted");
  CHECK(tensor_answer(four_floats, 3, {}, {}) == "accepted");
  CHECK(tensor_answer(four_floats, 0, {0, 9}, {9, 1}) == "accepted");
  CHECK_THAT(tensor_answer(four_floats, 0, {5}, {1}),
             Contains("tensor w: expected elements within the storage's 4, found element 4"));
  CHECK_THAT(tensor_answer(four_floats, 1, {2, 2}, {2, 1}), Contains("found element 4"));
  CHECK_THAT(tensor_answer(four_floats, 4, {}, {}), Contains("found element 4"));
  CHECK_THAT(tensor_answer(four_floats, 0, {2}, {4}), Contains("found element 4"));
  CHECK_THAT(tensor_answer(four_floats, -1, {1}, {1}),
             Contains("expected a storage offset of 0 or more, found -1"));
  CHECK_THAT(tensor_answer(four_floats, 3, {2}, {-1}), Contains("expected strides of 0 or more, found -1"));
  CHECK_THAT(tensor_answer(four_floats, 0, {-2}, {1}), Contains("expected sizes of 0 or more, found -2"));
  CHECK_THAT(tensor_answer(four_floats, 0, {2, 2}, {1}), Contains("expected 2 strides, found 1"));
  CHECK_THAT(tensor_answer(four_floats, 0, {kMax, kMax}, {0, 0}),
             Contains("sizes and strides within 64 bits"));
  CHECK_THAT(tensor_answer(four_floats, 0, {3}, {kMax}), Contains("sizes and strides within 64 bits"));
  CHECK_THAT(tensor_answer(four_floats, kMax, {2}, {1}), Contains("sizes and strides within 64 bits"));
  CHECK_THAT(tensor_answer(four_floats, 0, {0, kMax, kMax}, {1, 1, 1}),
             Contains("sizes and strides within 64 bits"));
}

TEST_CASE("torch: hostile tensor: storages are as large as they say") {
  CHECK_THAT(tensor_answer(storage("0", "FloatStorage", 5), 0, {1}, {1}),
             Contains("expected a storage of 20 bytes, found 16"));
  CHECK_THAT(tensor_answer(storage("0", "FloatStorage", 3), 0, {1}, {1}), Contains("found 16"));
  CHECK_THAT(tensor_answer(storage("0", "DoubleStorage", 4), 0, {1}, {1}), Contains("of 32 bytes, found 16"));
  CHECK_THAT(tensor_answer(storage("1", "FloatStorage", 4), 0, {1}, {1}), Contains("found no storage 1"));
  CHECK_THAT(tensor_answer(storage("../0", "FloatStorage", 4), 0, {1}, {1}),
             Contains("found no storage ../0"));
  CHECK_THAT(tensor_answer(storage("0", "FloatStorage", -4), 0, {1}, {1}),
             Contains("expected a number of elements"));
  CHECK_THAT(tensor_answer(storage("0", "DoubleStorage", kMax), 0, {1}, {1}),
             Contains("a size within 64 bits"));
  CHECK_THAT(tensor_answer(storage("0", "OtherStorage", 4), 0, {1}, {1}),
             Contains("expected a storage class of PyTorch, found torch.OtherStorage"));
  CHECK_THAT(tensor_answer("N", 0, {1}, {1}), Contains("expected a storage in the file"));
  CHECK_THAT(tensor_answer("NQ", 0, {1}, {1}), Contains("expected a storage in the file"));
  CHECK_THAT(tensor_answer(tuple({text("storage"), "N"}) + "Q", 0, {1}, {1}),
             Contains("expected 5 or 6 fields, found 2"));
  const std::string view = tuple({text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"),
                                  integer(4), tuple({text("v"), integer(3), integer(2)})}) +
                           "Q";
  CHECK_THAT(tensor_answer(view, 0, {1}, {1}),
             Contains("expected a view within 4 elements, found 2 from element 3"));
}

TEST_CASE("torch: hostile tensor: calls without their arguments are refused") {
  const auto rebuilt = [](std::initializer_list<std::string> args) {
    return pickle_answer(whole(dict({text("w"), call(global("torch._utils", "_rebuild_tensor_v2"), args)})));
  };
  CHECK_THAT(rebuilt({}), Contains("expected 6 arguments for torch._utils._rebuild_tensor_v2, found 0"));
  CHECK_THAT(rebuilt({four_floats, "N", shape({1}), shape({1}), "\x89", "N"}),
             Contains("expected a storage offset"));
  CHECK_THAT(rebuilt({four_floats, integer(0), "N", shape({1}), "\x89", "N"}),
             Contains("expected sizes as a tuple"));
  CHECK_THAT(rebuilt({four_floats, integer(0), shape({1}), tuple({"N"}), "\x89", "N"}),
             Contains("expected whole numbers as strides"));
  CHECK(pickle_answer(whole(dict({text("w"), call(global("torch._utils", "_rebuild_parameter"), {})}))) ==
        "accepted");
}

}  // namespace moh
