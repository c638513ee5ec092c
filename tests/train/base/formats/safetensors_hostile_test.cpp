#include <catch2/catch.hpp>
#include <random>

#include "tests/support/message_of.h"
#include "tests/support/opening_cost.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/safetensors_text.h"
#include "train/base/formats/safetensors.h"
#include "train/base/formats/stored_dtype.h"

namespace moh {

namespace {

/// The message for a file of these bytes, behind its path.
std::string refused_safetensors(std::string_view bytes) {
  const TemporaryFolder folder;
  const std::string path = (folder / "x").string();
  write_file(path, bytes);
  const std::string message = message_of<DataError>([&] { SafetensorsFile file(path); });
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

/// The message for a header with this text for one tensor, with 8 bytes of data behind.
std::string entry_refusal(const std::string& text) {
  return refused_safetensors(safetensors_bytes("{\"w\":" + text + "}", "12345678"));
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  std::string text = R"({"dtype":")";
  text.append(dtype).append(R"(","shape":[)").append(shape).append(R"(],"data_offsets":[)").append(offsets);
  return text + "]}";
}

using Catch::Contains;
using Catch::StartsWith;

}  // namespace

TEST_CASE("io: safetensors: refuses paths that are no files") {
  const TemporaryFolder folder;
  CHECK(message_of<DataError>([&] { SafetensorsFile file(folder / "none"); }) ==
        (folder / "none").string() + ": expected a readable file, found No such file or directory");
  CHECK(message_of<DataError>([&] { SafetensorsFile file(folder.path()); }) ==
        folder.path().string() + ": expected a regular file, found a folder");
  CHECK_THROWS_AS(SafetensorsFile(folder / "none", InputKind::kCheckpoint), CheckpointError);
}

TEST_CASE("io: safetensors: refuses hostile header lengths") {
  CHECK_THAT(refused_safetensors(""), StartsWith("header length: expected a safetensors file"));
  CHECK_THAT(refused_safetensors("1234567"), Contains("found a file of 7 bytes"));
  CHECK(refused_safetensors(safetensors_bytes("{}", "", 0)) ==
        "header length: expected 2 to 2, found 0; this is not a safetensors file, or it is truncated");
  CHECK_THAT(refused_safetensors(safetensors_bytes("{}", "", 7)), Contains("expected 2 to 2, found 7"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{}", "", 1ULL << 63)),
             Contains("found 9223372036854775808"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{}", "", ~0ULL)), Contains("found 18446744073709551615"));
}

TEST_CASE("io: safetensors: refuses a header above 100 MB although the file has it") {
  const TemporaryFolder folder;
  write_file(folder / "x", safetensors_bytes("{}", "", 100'000'001));
  std::filesystem::resize_file(folder / "x", 200'000'000);  // sparse
  CHECK_THAT(message_of<DataError>([&] { SafetensorsFile file(folder / "x"); }),
             Contains("expected 2 to 100000000, found 100000001"));
}

TEST_CASE("io: safetensors: refuses what is not one JSON object") {
  CHECK_THAT(refused_safetensors(safetensors_bytes("[]")), Contains("expected a JSON object"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("    ")), Contains("found only white space"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("\xef\xbb\xbf{}")), Contains("does not begin with {"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{ ")), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{}{}")), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{}x")), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_safetensors(safetensors_bytes(std::string("{}\0\0", 4))),
             Contains("found a NUL byte at byte 10"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{\"a\tb\":1}")), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{\"a\xff\":1}")), Contains("ill-formed UTF-8"));
  CHECK_THAT(refused_safetensors(safetensors_bytes("{\"\xed\xa0\x80\":1}")),
             Contains("ill-formed UTF-8"));  // a surrogate
  CHECK_THAT(refused_safetensors(safetensors_bytes("{'a':1}")), Contains("expected JSON in UTF-8"));
}

TEST_CASE("io: safetensors: refuses values of the wrong kind") {
  CHECK(entry_refusal("1") == "header, w: expected an object, found 1");
  CHECK(entry_refusal("null") == "header, w: expected an object, found null");
  CHECK(entry_refusal("[]") == "header, w: expected an object, found an array");
  CHECK(entry_refusal(R"({"dtype":3})") == "header, w, dtype: expected a string, found 3");
  CHECK(entry_refusal(R"({"dtype":{"a":1}})") == "header, w, dtype: expected a string, found an object");
  CHECK(entry_refusal(R"({"dtype":"F31"})") ==
        "header, w, dtype: expected a dtype of the safetensors format, found F31");
  CHECK(entry_refusal(R"({"shape":{}})") == "header, w, shape: expected an array, found an object");
  CHECK(entry_refusal(R"({"shape":[[1]]})") ==
        "header, w, shape: expected whole numbers from 0 to 2^64 - 1, found an array");
  CHECK(entry_refusal(R"({"shape":[true]})") ==
        "header, w, shape: expected whole numbers from 0 to 2^64 - 1, found a boolean");
  CHECK_THAT(entry_refusal(entry("F32", "-1", "0,8")),
             Contains("shape: expected whole numbers") && Contains("found -1"));
  CHECK_THAT(entry_refusal(entry("F32", "2.0", "0,8")), Contains("found 2.0"));
  CHECK_THAT(entry_refusal(entry("F32", "2", "0,8e0")),
             Contains("data_offsets: expected whole") && Contains("8e0"));
  CHECK_THAT(entry_refusal(entry("F32", "18446744073709551616", "0,8")),
             Contains("found 18446744073709551616"));
  CHECK(entry_refusal(entry("F32", "2", "0,8,9")) ==
        "header, w, data_offsets: expected at most 2 numbers, found more");
  CHECK(entry_refusal(entry("F32", "2", "0")) == "header, w, data_offsets: expected 2 numbers, found 1");
  CHECK(entry_refusal(entry("F32", "1,1,1,1,1,1,2", "0,8")) ==
        "header, w, shape: expected at most 6 numbers, found more");
}

TEST_CASE("io: safetensors: refuses missing, unknown and repeated keys") {
  CHECK(entry_refusal("{}") == "header, w, keys: expected dtype, shape and data_offsets, found fewer");
  CHECK(entry_refusal(R"({"dtype":"F32","shape":[2]})") ==
        "header, w, keys: expected dtype, shape and data_offsets, found fewer");
  CHECK(entry_refusal(R"({"dtype":"F32","dtype":"F32"})") ==
        "header, w, keys: expected dtype, shape and data_offsets, each once, found also the key dtype");
  CHECK(entry_refusal(R"({"stride":[2]})") ==
        "header, w, keys: expected dtype, shape and data_offsets, each once, found also the key stride");
  const std::string w = "\"w\":" + entry("F32", "1", "0,4");
  CHECK(refused_safetensors(safetensors_bytes("{" + w + "," + w + "}", "1234")) ==
        "header, w, data_offsets: expected a begin of 4, where the tensor before ends, found 0");
  const std::string empty = "\"w\":" + entry("F32", "0", "0,0");
  CHECK(refused_safetensors(safetensors_bytes("{" + empty + "," + empty + "}")) ==
        "header, w: expected this key once, found it twice");
  CHECK(refused_safetensors(safetensors_bytes("{" + empty + ",\"\\u0077\":" + entry("F32", "0", "0,0") +
                                              "}")) == "header, w: expected this key once, found it twice");
}

TEST_CASE("io: safetensors: refuses metadata that is not strings") {
  const auto metadata = [](const std::string& text) {
    return refused_safetensors(safetensors_bytes("{\"__metadata__\":" + text + "}"));
  };
  CHECK(metadata("1") == "header, __metadata__: expected an object, found 1");
  CHECK(metadata(R"({"a":1})") == "header, __metadata__, a: expected a string, found 1");
  CHECK(metadata(R"({"a":{"b":"c"}})") == "header, __metadata__, a: expected a string, found an object");
  CHECK(metadata(R"({"a":["b"]})") == "header, __metadata__, a: expected a string, found an array");
  CHECK(metadata(R"({"a":null})") == "header, __metadata__, a: expected a string, found null");
  CHECK(metadata(R"({"a":"1","a":"2"})") ==
        "header, __metadata__, a: expected this key once, found it twice");
  CHECK(metadata(R"({},"__metadata__":{})") ==
        "header, __metadata__: expected this key once, found it twice");
}

TEST_CASE("io: safetensors: refuses ranges that overlap, leave holes or miss the end") {
  const auto two = [](const std::string& a, const std::string& b) {
    return refused_safetensors(safetensors_bytes("{\"a\":" + a + ",\"b\":" + b + "}", "12345678"));
  };
  CHECK(two(entry("U8", "4", "0,4"), entry("U8", "6", "2,8")) ==
        "header, b, data_offsets: expected a begin of 4, where the tensor before ends, found 2");
  CHECK(two(entry("U8", "8", "0,8"), entry("U8", "8", "0,8")) ==
        "header, b, data_offsets: expected a begin of 8, where the tensor before ends, found 0");
  CHECK(two(entry("U8", "2", "0,2"), entry("U8", "4", "4,8")) ==
        "header, b, data_offsets: expected a begin of 2, where the tensor before ends, found 4");
  CHECK(two(entry("U8", "2", "0,2"), entry("U8", "4", "2,6")) ==
        "data: expected 6 bytes, as the header says, found 8; something was appended to the file");
  CHECK(two(entry("U8", "4", "0,4"), entry("U8", "8", "4,12")) ==
        "data: expected 12 bytes, as the header says, found 8; the file is truncated");
  CHECK(entry_refusal(entry("U8", "8", "8,0")) ==
        "header, w, data_offsets: expected an end at or after the begin, found [8, 0]");
  CHECK(refused_safetensors(safetensors_bytes("{}", "x")) ==
        "data: expected 0 bytes, as the header says, found 1; something was appended to the file");
}

TEST_CASE("io: safetensors: refuses shapes that overflow or contradict their range") {
  CHECK(entry_refusal(entry("F32", "3", "0,8")) ==
        "header, w, data_offsets: expected 12 bytes for its shape and dtype, found 8");
  for (const char* shape : {"2,9223372036854775808", "9223372036854775808,2", "4294967296,4294967296",
                            "18446744073709551615", "0,9223372036854775808", "2305843009213693952,8"}) {
    INFO(shape);
    CHECK(entry_refusal(entry("U8", shape, "0,8")) ==
          "header, w, shape: expected a size within 64 bits, found more");
  }
  CHECK(entry_refusal(entry("F4", "3", "0,2")) ==
        "header, w, shape: expected a whole number of bytes, found 12 bits");
}

TEST_CASE("io: safetensors: a hostile name cannot write to the terminal") {
  CHECK_THAT(refused_safetensors(safetensors_bytes("{\"\\u001b[2J\\u0007" + std::string(500, 'a') + "\":1}")),
             StartsWith("header, \\x1b[2J\\x07aaa") && Contains("...: expected an object"));
}

namespace {

/// Writes `{`, then `piece(0)`, `piece(1)`, ... up to about `bytes`, then `}`.
template <class Piece>
std::string long_header(std::size_t bytes, Piece&& piece) {
  std::string header = "{";
  for (int i = 0; header.size() < bytes; ++i) header.append(i == 0 ? "" : ",").append(piece(i));
  return header + "}";
}

std::string quoted(int number) {
  std::string text(1, '"');
  return text.append(std::to_string(number)).append(1, '"');
}

void check_bounded(const std::string& header, const std::string& message) {
  const TemporaryFolder folder;
  write_file(folder / "x", safetensors_bytes(header));
  const auto path = folder / "x";
  const OpeningCost cost = cost_of_opening([&] { const SafetensorsFile file(path); });
  INFO(cost.megabytes << " MB, " << cost.seconds << " s");
  CHECK_THAT(cost.message, Contains(message));
#ifndef MOH_SANITIZED  // sanitizers keep freed memory back, and take their time
  CHECK(cost.megabytes < static_cast<double>(header.size()) / 1e6 + 64);
  CHECK(cost.seconds < 1);
#endif
}

}  // namespace

TEST_CASE("io: safetensors: hostile headers cost bounded memory and time") {
  constexpr std::size_t kLarge = 20'000'000;
  check_bounded(long_header(kLarge, [](int i) { return quoted(i) + ":" + entry("U8", "1000", "0,1000"); }),
                "expected at most 262144 tensors, found more");
  check_bounded("{\"" + std::string(kLarge, 'a') + "\":1}", "spaces of at most 8388608 bytes");
  check_bounded("{\"__metadata__\":" + long_header(kLarge, [](int i) { return quoted(i) + ":\"\""; }) + "}",
                "expected at most 65536 entries");
  check_bounded("{\"a\":" + std::string(kLarge, '['), "expected an object, found an array");
  check_bounded("{" + std::string(kLarge, ' ') + "}", "spaces of at most 8388608 bytes");
  check_bounded("{" + std::string(1'000'000, ' ') + "}", "accepted");
  check_bounded("{\"a\":{\"shape\":[" + std::string(kLarge, '1'), "spaces of at most 8388608 bytes");
}

TEST_CASE("io: safetensors: mutated files are refused by one typed error or read whole") {
  const std::string good = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"c":{"dtype":"I64","shape":[0],"data_offsets":[10,10]}})",
      "0123456789");
  const std::string_view alphabet = "{}[],:\"\\ 0123456789-.eE+aF\n\0\xff\xc3";
  const TemporaryFolder folder;
  const auto path = folder / "x";
  std::mt19937 random(20240917);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  int refused = 0, read = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (std::size_t i = 0, n = 1 + below(3); i < n; ++i) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 1:
          bytes[at] = alphabet[below(alphabet.size())];
          break;
        case 2:
          bytes.erase(at, 1 + below(8));
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
      }
      if (bytes.empty()) bytes.push_back('x');
    }
    // Most structural changes would only be seen as a wrong length.
    if (below(2) == 0 && bytes.size() > 18) {
      const std::string header = bytes.substr(8, bytes.size() - 18);
      bytes = safetensors_bytes(header, bytes.substr(bytes.size() - 10));
    }
    write_file(path, bytes);
    try {
      const SafetensorsFile file(path);
      for (const WeightInfo& listed : file.tensors()) {
        if (find_safetensors_dtype(listed.stored_dtype)->loads_as)
          CHECK(file.tensor(listed).bytes() == listed.bytes);
      }
      ++read;
    } catch (const DataError& error) {
      CHECK(std::string_view(error.what()).starts_with(path.string()));
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 100);
}

}  // namespace moh
