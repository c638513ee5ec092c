#include "train/base/formats/tar_file.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/corpus_archive.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace moh;

namespace {

std::string corpus(const std::string& name) {
  for (const test::CorpusFile& file : test::CorpusArchive::read(MOH_SOURCE_DIR "/tests/fuzz/corpus/tar.tar"))
    if (file.name == name) return file.bytes;
  throw std::runtime_error("the corpus of tar has no " + name);
}

std::vector<TarMember> members(const std::string& bytes) {
  const TemporaryFolder folder;
  const InputFile file(write_file(folder / "a.tar", bytes), InputKind::kData);
  std::vector<TarMember> found;
  read_tar(file, [&](const TarMember& member) { found.push_back(member); });
  return found;
}

std::string refused_tar(const std::string& bytes) {
  return message_of<DataError>([&] { members(bytes); });
}

/// A header with another number at `at`, and its sum put right.
std::string with(std::string bytes, std::size_t at, const std::string& text) {
  bytes.replace(at, text.size(), text);
  bytes.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
  for (std::size_t i = 0; i < 6; ++i) bytes[153 - i] = static_cast<char>('0' + (sum >> (3 * i)) % 8);
  return bytes;
}

}  // namespace

TEST_CASE("tar: members of ustar, GNU and pax archives have their names and places") {
  const std::string ustar = corpus("ustar.tar");
  const auto found = members(ustar);
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "a/0001.jpg");
  CHECK(ustar.substr(found[0].offset, found[0].size) == "xxxxxxxxxx");
  CHECK(found[1].name == "a/0001.cls");
  CHECK(ustar.substr(found[1].offset, found[1].size) == "3");
  CHECK(found[2].name == std::string(90, 'p') + "/" + std::string(60, 'q') + ".jpg");
  CHECK(found[2].size == 0);

  const auto gnu = members(corpus("gnu.tar"));
  REQUIRE(gnu.size() == 1);
  CHECK(gnu[0].name.size() == 168);
  CHECK(gnu[0].size == 600);
  const auto pax = members(corpus("pax.tar"));
  REQUIRE(pax.size() == 1);
  CHECK_THAT(pax[0].name, Catch::EndsWith("/e/\xc3\xbc.jpg"));
}

TEST_CASE("tar: damaged archives are refused with the place of the damage") {
  const std::string sound = corpus("ustar.tar");
  CHECK_THAT(refused_tar(corpus("cut.tar")), Catch::Contains("within the file's 520 bytes, found one of 10"));
  CHECK_THAT(refused_tar("no archive" + std::string(600, 'x')), Catch::Contains("header at byte 0"));
  CHECK_THAT(refused_tar("\x1f\x8b" + std::string(600, 'x')),
             Catch::Contains("a compressed file; unpack it once"));
  CHECK_THAT(refused_tar(with(sound, 124, "77777777777")), Catch::Contains("found one of 8589934591"));
  CHECK_THAT(refused_tar(with(sound, 124, "\x80\x7f")), Catch::Contains("expected a size"));
  CHECK_THAT(refused_tar(with(sound, 124, "abc")), Catch::Contains("expected a size"));
  CHECK_THAT(refused_tar(with(sound, 156, "S")), Catch::Contains("a sparse file"));
  CHECK_THAT(refused_tar(with(sound, 156, "x")), Catch::Contains("pax records"));
  CHECK(members("").empty());
}
