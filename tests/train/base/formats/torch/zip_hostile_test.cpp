#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "train/base/formats/torch/torch_file.h"

namespace moh {

namespace {

using namespace test::pickle;
using Catch::Contains;
using test::little_endian_bytes;
using test::zip_bytes;
using test::ZipEnd;
using test::ZipPart;

std::string pickle_of_one_tensor() {
  return whole(dict({text("w"), tensor(storage("0", "FloatStorage", 1), 0, {1}, {1})}));
}

/// An archive of a tensor with four bytes, the entries changed by `change`.
template <class Change>
std::string changed(Change&& change, const ZipEnd& end = {}) {
  std::vector<ZipPart> parts = {{.name = "x/data.pkl", .bytes = pickle_of_one_tensor()},
                                {.name = "x/data/0", .bytes = "abcd"},
                                {.name = "x/version", .bytes = "3\n"}};
  change(parts);
  return zip_bytes(parts, end);
}

std::string with_end(const ZipEnd& end) {
  return changed([](auto&) {}, end);
}

/// "abcd" when the tensor can be read, else the message behind the path.
std::string zip_answer(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "x", bytes);
  try {
    const TorchFile file(path);
    std::string elements(4, '\0');
    file.read(*file.find("w")->tensor, 0, std::as_writable_bytes(std::span(elements)));
    return elements;
  } catch (const CheckpointError& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ": "));
    return message.substr(path.size() + 2);
  }
}

std::string zip64_field(std::initializer_list<std::uint64_t> values) {
  std::string field = little_endian_bytes(1, 2) + little_endian_bytes(8 * values.size(), 2);
  for (const std::uint64_t value : values) field += little_endian_bytes(value, 8);
  return field;
}

constexpr std::uint32_t kIn64 = 0xffffffff;

}  // namespace

TEST_CASE("torch: zip: archives as torch.save and other programs write them are read") {
  CHECK(zip_answer(with_end({})) == "abcd");
  CHECK(zip_answer(with_end({.zip64 = true})) == "abcd");
  CHECK(zip_answer(with_end({.entries = 0xffff, .begin = kIn64, .bytes = kIn64, .zip64 = true})) == "abcd");
  CHECK(zip_answer(with_end({.comment = "a comment"})) == "abcd");
  CHECK(zip_answer(changed(
            [](auto& parts) { parts.push_back({.name = "x/byteorder", .bytes = "little"}); })) == "abcd");
  CHECK(zip_answer(changed(
            [](auto& parts) { parts.push_back({.name = "../../etc/passwd", .bytes = "text"}); })) == "abcd");
  CHECK(zip_answer(changed([](auto& parts) { parts.push_back({.name = "x/", .bytes = ""}); })) == "abcd");
  CHECK(zip_answer(changed([](auto& parts) {
          parts[1].size = parts[1].packed = kIn64;
          parts[1].extra =
              little_endian_bytes(0x4246, 2) + little_endian_bytes(1, 2) + "Z" + zip64_field({4, 4});
          parts[1].local_extra = little_endian_bytes(0x4246, 2) + little_endian_bytes(3, 2) + "ZZZ";
        })) == "abcd");
  CHECK(zip_answer(changed([](auto& parts) {
          for (ZipPart& part : parts) {
            part.flags = 0;
            part.local_size = static_cast<std::uint32_t>(part.bytes.size());
          }
        })) == "abcd");
}

TEST_CASE("torch: zip: compressed and encrypted entries are refused with what to do") {
  CHECK_THAT(
      zip_answer(changed([](auto& parts) { parts[1].method = 8; })),
      Contains(
          "zip entry x/data/0: expected an entry that is stored as it is, found one compressed by method 8; "
          "load it in Python and save it again with torch.save"));
  // A bomb: ten bytes that say they are a terabyte.
  CHECK_THAT(zip_answer(changed([](auto& parts) {
               parts[1].method = 8;
               parts[1].size = kIn64;
               parts[1].extra = zip64_field({1ULL << 40});
             })),
             Contains("compressed by method 8"));
  CHECK_THAT(zip_answer(changed([](auto& parts) { parts[0].flags |= 1; })),
             Contains("found an encrypted one"));
}

TEST_CASE("torch: zip: sizes and places that lie are refused") {
  const auto with_entry = [](auto&& change) {
    return zip_answer(changed([&](std::vector<ZipPart>& parts) { change(parts[1]); }));
  };
  CHECK_THAT(with_entry([](ZipPart& p) { p.size = 5; }),
             Contains("as many bytes in the archive as in the entry, 5, found 4"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.size = p.packed = 1 << 30; }),
             Contains("expected bytes that end before the directory, found 1073741824 from byte"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.size = p.packed = 3; }),
             Contains("expected a storage of 4 bytes, found 3"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.header_offset = 1; }),
             Contains("the same name and method in both its headers"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.header_offset = kIn64 - 1; }),
             Contains("expected a header before the directory"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.local_name = "x/data/1"; }), Contains("the same name and method"));
  CHECK_THAT(with_entry([](ZipPart& p) {
               p.flags = 0;
               p.local_size = 7;
             }),
             Contains("expected the same size in both its headers, 4, found 7"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.size = p.packed = kIn64; }),
             Contains("expected a Zip64 field with its size"));
  CHECK_THAT(with_entry([](ZipPart& p) {
               p.size = p.packed = kIn64;
               p.extra = zip64_field({4});
             }),
             Contains("expected a Zip64 field with its size"));
  CHECK_THAT(with_entry([](ZipPart& p) {
               p.size = p.packed = p.header_offset = kIn64;
               p.extra = zip64_field({~0ULL, ~0ULL, ~0ULL});
             }),
             Contains("expected a header before the directory, found one at byte 18446744073709551615"));
  CHECK_THAT(with_entry([](ZipPart& p) {
               p.size = p.packed = kIn64;
               p.extra = zip64_field({~0ULL, ~0ULL});
             }),
             Contains("bytes that end before the directory, found 18446744073709551615"));
  CHECK_THAT(with_entry([](ZipPart& p) { p.extra = little_endian_bytes(7, 2) + little_endian_bytes(9, 2); }),
             Contains("expected fields within their frame"));
}

TEST_CASE("torch: zip: entries that share bytes or names are refused") {
  CHECK_THAT(zip_answer(changed([](auto& parts) { parts.push_back({.name = "x/data/0", .bytes = "abcd"}); })),
             Contains("zip entry x/data/0: expected this name once, found it twice"));
  // The second entry's header and bytes are inside the first one's.
  const std::string inner = zip_bytes({{.name = "x/data/1", .bytes = "abcd"}});
  CHECK_THAT(zip_answer(changed([&](auto& parts) {
               const auto pickle_bytes =
                   static_cast<std::uint32_t>(30 + parts[0].name.size() + parts[0].bytes.size());
               parts[1].bytes = inner.substr(0, 42);
               parts.push_back({.name = "x/data/1", .bytes = "abcd", .header_offset = pickle_bytes + 38});
             })),
             Contains("zip entry x/data/1: expected bytes of its own, found some that belong to x/data/0"));
}

TEST_CASE("torch: zip: records at the end that lie are refused") {
  CHECK_THAT(zip_answer(with_end({.entries = 2})), Contains("zip directory: expected 2 entries, found more"));
  CHECK_THAT(zip_answer(with_end({.entries = 4})), Contains("zip directory: expected"));
  CHECK_THAT(zip_answer(with_end({.entries = 9999})),
             Contains("zip directory: expected at most 3 entries, found 9999"));
  CHECK_THAT(zip_answer(with_end({.begin = 0})), Contains("zip directory: expected one that ends at byte"));
  CHECK_THAT(zip_answer(with_end({.bytes = kIn64 - 1})),
             Contains("zip directory: expected one that ends at byte"));
  CHECK_THAT(zip_answer(with_end({.begin = kIn64})),
             Contains("expected a Zip64 record in front of it, found none"));
  CHECK_THAT(zip_answer(with_end({.zip64 = true, .entries64 = 1ULL << 60})),
             Contains("Zip64 record: expected the values of the end record"));
  CHECK_THAT(zip_answer(with_end({.entries = 0xffff, .zip64 = true, .entries64 = 1ULL << 60})),
             Contains("expected at most 3 entries, found 1152921504606846976"));
  CHECK_THAT(zip_answer(with_end({.begin = kIn64, .zip64 = true, .begin64 = ~0ULL})),
             Contains("zip directory: expected one that ends at byte"));
  CHECK_THAT(zip_answer(with_end({.bytes = kIn64, .zip64 = true, .bytes64 = ~0ULL})),
             Contains("zip directory: expected one that ends at byte"));
  CHECK_THAT(zip_answer(with_end({.zip64 = true, .locator = 0})),
             Contains("Zip64 locator: expected a record right in front of it"));
  CHECK_THAT(zip_answer(with_end({.zip64 = true, .locator = ~0ULL})), Contains("Zip64 locator"));
  CHECK_THAT(zip_answer(with_end({}) + "tail"),
             Contains("expected its directory at the end of the file, found none"));
}

TEST_CASE("torch: zip: a damaged pickle does not get as far as its first opcode") {
  CHECK_THAT(zip_answer(changed([](auto& parts) { parts[0].crc32 = 7; })),
             Contains("zip entry x/data.pkl: expected CRC-32 7, found"));
}

TEST_CASE("torch: zip: archives of other programs are named") {
  CHECK_THAT(zip_answer(zip_bytes({})),
             Contains("expected data.pkl in a folder, as torch.save writes, found none"));
  CHECK_THAT(zip_answer(zip_bytes({{.name = "arr_0.npy", .bytes = "x"}})),
             Contains("this is not a PyTorch file"));
  // Its code is compressed, which must not be what the refusal is about.
  CHECK_THAT(zip_answer(changed([](auto& parts) {
               parts.push_back({.name = "x/code/__torch__.py", .bytes = "abc", .method = 8, .size = 9});
               parts.push_back({.name = "x/constants.pkl", .bytes = ""});
             })),
             Contains("found a program of TorchScript (torch.jit.save); in Python, "
                      "torch.save(torch.jit.load(FILE).state_dict(), OTHER_FILE)"));
  CHECK_THAT(zip_answer(changed([](auto& parts) { parts.push_back({.name = "y/data.pkl", .bytes = ""}); })),
             Contains("expected one data.pkl, found x/data.pkl and y/data.pkl"));
  CHECK_THAT(
      zip_answer(changed([](auto& parts) { parts.push_back({.name = "x/byteorder", .bytes = "big"}); })),
      Contains("byteorder: expected little, found big"));
}

TEST_CASE("torch: old format: streams that lie, and tar archives, are refused") {
  const std::string object = pickle_of_one_tensor(), keys = whole(list({text("0")}));
  const std::string count = little_endian_bytes(1, 8);
  CHECK(zip_answer(test::old_torch(object, keys, count + "abcd")) == "abcd");
  CHECK_THAT(zip_answer(test::old_torch(object, keys, count + "abc")),
             Contains("at most the 3 bytes that are left, found 1 elements"));
  CHECK_THAT(zip_answer(test::old_torch(object, keys, little_endian_bytes(1ULL << 62, 8) + "abcd")),
             Contains("found 4611686018427387904 elements"));
  CHECK_THAT(zip_answer(test::old_torch(object, keys, little_endian_bytes(~0ULL, 8) + "abcd")),
             Contains("found 18446744073709551615 elements"));
  CHECK_THAT(zip_answer(test::old_torch(object, keys, count + "abcdef")), Contains("something was appended"));
  CHECK_THAT(zip_answer(test::old_torch(object, keys, "")),
             Contains("8 more bytes, found the end of the file"));
  CHECK_THAT(zip_answer(test::old_torch(object, whole("]"), "")), Contains("found no storage 0"));
  CHECK_THAT(zip_answer(test::old_torch(object, whole("N"), "")), Contains("storage keys: expected a list"));
  CHECK_THAT(zip_answer(test::old_torch(object, whole(list({"N"})), "")),
             Contains("storage keys: expected texts"));
  CHECK_THAT(zip_answer(test::old_torch(object, whole(list({text("0"), text("0")})),
                                        count + "abcd" + count + "abcd")),
             Contains("storage 0: expected this key once, found it twice"));
  CHECK_THAT(zip_answer(test::old_torch(object, whole(list({text("7")})), count + "abcd")),
             Contains("storage 7: expected a tensor that uses it, found none"));
  std::string tar(1024, '\0');
  tar.replace(0, 8, "sys_info").replace(257, 6, "ustar ");
  CHECK_THAT(zip_answer(tar), Contains("expected that of PyTorch 0.1.10 or later, found a tar archive"));
  CHECK_THAT(zip_answer("text"), Contains("expected a file of torch.save"));
  CHECK_THAT(zip_answer(""), Contains("expected a file of torch.save"));
}

namespace {

/// Reads all that is in the file. A CheckpointError is an answer, anything else an error of the reader.
void read_all(const std::filesystem::path& path, const std::string& bytes, int& refused, int& read) {
  std::filesystem::remove(path);  // ext4 syncs a file that is made empty and written anew
  write_file(path, bytes);
  try {
    const TorchFile file(path);
    for (const TorchLeaf& leaf : file.leaves()) {
      if (leaf.kind != TorchKind::kTensor) continue;
      std::vector<std::byte> elements(leaf.tensor->bytes());
      file.read(*leaf.tensor, 0, elements);
    }
    ++read;
  } catch (const CheckpointError& error) {
    CHECK(std::string_view(error.what()).starts_with(path.string()));
    ++refused;
  }
}

void check_all_damage(const std::string& good) {
  const TemporaryFolder folder;
  int refused = 0, read = 0;
  read_all(folder / "x", good, refused, read);
  REQUIRE(read == 1);
  for (std::size_t at = 0; at < good.size(); ++at) {
    read_all(folder / "x", good.substr(0, at), refused, read);
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      read_all(folder / "x", bytes, refused, read);
    }
  }
  INFO(refused << " refused, " << read << " read");
  CHECK(refused > static_cast<int>(good.size()) * 2);
}

}  // namespace

TEST_CASE("torch: every flipped bit and every truncation of a small file is refused or read") {
  check_all_damage(with_end({.zip64 = true}));
  check_all_damage(
      test::old_torch(pickle_of_one_tensor(), whole(list({text("0")})), little_endian_bytes(1, 8) + "abcd"));
}

}  // namespace moh
