#include "train/tasks/language/data/foreign_tokens.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/tasks/language/data/corpus.h"
#include "train/tasks/language/data/separated_tokens.h"
#include "train/tasks/language/data/tokenize_files.h"

using namespace moh;
using Catch::Contains;

namespace {

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string numpy(const std::string& header, const std::string& elements, char version = 1) {
  std::string text = header + std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  const auto size = static_cast<std::uint32_t>(text.size());
  bytes += bytes_of(std::vector<std::uint32_t>{size}).substr(0, version == 1 ? 2 : 4);
  return bytes + text + elements;
}

std::string shape_of(const std::string& descr, const std::string& shape,
                     const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

std::string llm_c(std::uint32_t magic, std::uint32_t version, std::uint32_t count, const std::string& ids) {
  std::vector<std::uint32_t> header(256, 0);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytes_of(header) + ids;
}

/// An index of sequences of two-byte ids.
std::string megatron(const std::vector<std::int32_t>& sizes, const std::vector<std::int64_t>& bounds) {
  std::vector<std::int64_t> pointers;
  std::int64_t at = 0;
  for (const std::int32_t size : sizes) {
    pointers.push_back(at);
    at += 2 * size;
  }
  std::string bytes("MMIDIDX\0\0", 9);
  bytes += bytes_of(std::vector<std::uint64_t>{1}) + '\x08';
  bytes += bytes_of(std::vector<std::uint64_t>{sizes.size(), bounds.size()});
  return bytes + bytes_of(sizes) + bytes_of(pointers) + bytes_of(bounds);
}

std::vector<TokenId> all_of(const TokenSource& tokens) {
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, ids);
  return ids;
}

std::vector<TokenId> read(const std::string& path, const std::string& bin_dtype = kNoBinDtype) {
  TextOptions options;
  options.bin_dtype = bin_dtype;
  const std::string inputs[] = {path};
  const Corpus corpus = open_corpus(inputs, ByteTokenizer(), {}, options);
  REQUIRE(corpus.files.size() == 1);
  return all_of(*corpus.files[0].tokens);
}

void check_refused(const std::string& path, const std::string& message,
                   const std::string& bin_dtype = kNoBinDtype) {
  CHECK_THROWS_AS(read(path, bin_dtype), DataError);
  CHECK_THROWS_WITH(read(path, bin_dtype), Contains(message));
}

const std::vector<std::uint16_t> sample_ids = {104, 101, 0, 97, 100, 115};

}  // namespace

TEST_CASE("ids of NumPy: every integer type, one dimension and rows") {
  const TemporaryFolder folder;
  const std::vector<TokenId> expected(sample_ids.begin(), sample_ids.end());
  const auto written = [&]<class Number>(const std::string& descr, Number) {
    const std::vector<Number> ids(sample_ids.begin(), sample_ids.end());
    return read(write_file(folder / "a.npy", numpy(shape_of(descr, "(6,)"), bytes_of(ids))));
  };
  CHECK(written("|u1", std::uint8_t{}) == expected);
  CHECK(written("|i1", std::int8_t{}) == expected);
  CHECK(written("<u2", std::uint16_t{}) == expected);
  CHECK(written("<i2", std::int16_t{}) == expected);
  CHECK(written("<u4", std::uint32_t{}) == expected);
  CHECK(written("<i4", std::int32_t{}) == expected);
  CHECK(written("<u8", std::uint64_t{}) == expected);
  CHECK(written("<i8", std::int64_t{}) == expected);
  CHECK(read(write_file(folder / "a.npy", numpy(shape_of("<u2", "(2, 3)"), bytes_of(sample_ids), 2))) ==
        expected);
}

TEST_CASE("ids of NumPy: other arrays, and damaged files, are refused") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& contents, const std::string& message) {
    check_refused(write_file(folder / "a.npy", contents), message);
  };
  const std::string ids = bytes_of(sample_ids);
  check(numpy(shape_of("<f2", "(6,)"), ids), "header, descr: expected integers in little-endian order");
  check(numpy(shape_of(">u2", "(6,)"), ids), "header, descr: expected integers");
  check(numpy(shape_of("<u2", "(7,)"), ids), "size: expected the elements of its shape, found 12 bytes");
  check(numpy(shape_of("<u2", "(4611686018427387904, 4)"), ids), "expected the elements of its shape");
  check(numpy(shape_of("<u2", "()"), ids), "header, shape: expected one dimension, or two");
  check(numpy(shape_of("<u2", "(1, 2, 3)"), ids), "header, shape: expected one dimension, or two");
  check(numpy(shape_of("<u2", "(2, 3)", "True"), ids), "fortran_order: expected False");
  check(numpy(shape_of("<u2", "(0,)"), ""), "shape: expected at least one id");
  check(numpy("{'descr': '<u2'}", ids), "header, shape: expected an entry of the header, found none");
  check(numpy(shape_of("<u2", "(6,)"), ids, 4), "version: expected 1, 2 or 3");
  check(std::string("\x93NUMPY\x01"), "expected a file of NumPy");
  check(numpy(shape_of("<u2", "(1,)"), bytes_of(std::vector<std::uint16_t>{256})),
        "id 0: expected 0 ... 255, found 256; data.tokenizer must be the tokenizer that the ids were made "
        "with");
  check(numpy(shape_of("<i8", "(1,)"), bytes_of(std::vector<std::int64_t>{-1})), "found -1");
  check(numpy(shape_of("<u8", "(1,)"), bytes_of(std::vector<std::uint64_t>{1ULL << 32})), "found 4294967296");
}

TEST_CASE("ids of llm.c: both versions of the header") {
  const TemporaryFolder folder;
  const std::vector<TokenId> expected(sample_ids.begin(), sample_ids.end());
  CHECK(read(write_file(folder / "a.bin", llm_c(20240520, 1, 6, bytes_of(sample_ids)))) == expected);
  const std::vector<std::uint32_t> wide(sample_ids.begin(), sample_ids.end());
  CHECK(read(write_file(folder / "a.bin", llm_c(20240801, 7, 6, bytes_of(wide)))) == expected);
  check_refused(write_file(folder / "a.bin", llm_c(20240520, 1, 7, bytes_of(sample_ids))),
                "size: expected 1038 bytes, as its header says, found 1036");
}

TEST_CASE("ids without a header have the type that the user says") {
  const TemporaryFolder folder;
  const std::vector<TokenId> expected(sample_ids.begin(), sample_ids.end());
  const std::string path = write_file(folder / "train.bin", bytes_of(sample_ids));
  CHECK(read(path, "uint16") == expected);
  check_refused(path, "say the type of its ids: data.bin_dtype");
  check_refused(path, "id 0: expected 0 ... 255", "uint32");
  const std::string odd = write_file(folder / "odd.bin", std::string("a\0b", 3));
  check_refused(odd, "size: expected ids of uint16, 2 bytes each, found 3 bytes", "uint16");
  const std::string text = write_file(folder / "text.bin", "words");
  CHECK(read(text).size() == 5);
  // In a folder, other files of this name are passed over, unless a type is given.
  const TemporaryFolder mixed;
  write_file(mixed / "a.bin", bytes_of(sample_ids));
  write_file(mixed / "b.txt", "ab");
  CHECK(read(mixed.path().string()).size() == 2);
}

TEST_CASE("ids of Megatron-LM: documents end with the end-of-document id, where it is not there already") {
  const TemporaryFolder folder;
  // Documents: [1, 2 | 3], [4, 0], nothing, [5, 6]; two sequences are one document.
  const std::vector<std::uint16_t> ids = {1, 2, 3, 4, 0, 5, 6};
  write_file(folder / "a.bin", bytes_of(ids));
  write_file(folder / "a.idx", megatron({2, 1, 2, 2}, {0, 2, 3, 3, 4}));
  const std::vector<TokenId> expected = {1, 2, 3, 0, 4, 0, 5, 6};
  for (const std::string& named :
       {(folder / "a.idx").string(), (folder / "a.bin").string(), folder.path().string()})
    CHECK(read(named) == expected);
  const auto tokenized = tokenize_files(std::vector<std::string>{(folder / "a.idx").string()},
                                        folder / "a.safetensors", ByteTokenizer());
  CHECK(tokenized.info.num_documents == 3);
  CHECK(all_of(*TokenFile::open((folder / "a.safetensors").string())) == expected);
}

TEST_CASE("ids of Megatron-LM: a damaged index is refused") {
  const TemporaryFolder folder;
  write_file(folder / "a.bin", bytes_of(sample_ids));
  const auto check = [&](const std::string& index, const std::string& message) {
    check_refused(write_file(folder / "a.idx", index), message);
  };
  const std::string good = megatron({2, 4}, {0, 1, 2});
  CHECK(read(write_file(folder / "a.idx", good)) == std::vector<TokenId>{104, 101, 0, 0, 97, 100, 115});
  check(good.substr(0, 20), "header: ");
  check(good.substr(0, good.size() - 1), "size: expected that of 2 sequences and 3 bounds of documents");
  std::string changed = good;
  changed[9] = 2;
  check(changed, "version: expected 1, found 2");
  changed = good;
  changed[17] = 7;
  check(changed, "type: expected a code of integers, found code 7");
  changed = good;
  changed[25] = '\x7f';  // some 2^62 sequences
  check(changed, "size: ");
  changed = good;
  changed[34 + 8] = 1;  // the first pointer
  check(changed, "sequence 0: expected sequences one after the other, this one at byte 0, found 1");
  check(megatron({2, 4}, {0, 2, 1}), "documents: expected bounds in order, found 1");
  check(megatron({2, 4}, {0, 3}), "documents: expected bounds within its 2 sequences");
  check(megatron({2, 5}, {0, 1, 2}), "size: expected 14 bytes, as its index says, found 12");
  check(megatron({0, 0}, {0, 1, 2}), "sequences: expected at least one id");
}

TEST_CASE("separators: every range of the ids") {
  std::vector<TokenId> ids(7);
  std::iota(ids.begin(), ids.end(), 1);
  const auto tokens = separate_tokens(tokens_in_memory(ids, 256), {0, 3, 3, 7}, 99);
  const std::vector<TokenId> expected = {99, 1, 2, 3, 99, 99, 4, 5, 6, 7, 99};
  for (std::size_t begin = 0; begin <= expected.size(); ++begin) {
    for (std::size_t end = begin; end <= expected.size(); ++end) {
      std::vector<TokenId> part(end - begin);
      tokens->copy(static_cast<std::int64_t>(begin), part);
      CHECK(part == std::vector<TokenId>(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                                         expected.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }
}
