#include "tests/fuzz/corpus_archive.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace moh;
using moh::test::CorpusArchive;

namespace {

const std::string archive_path = MOH_SOURCE_DIR "/tests/fuzz/corpus/hf_config.tar";

std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.tar", bytes);
  return message_of<std::runtime_error>([&] { CorpusArchive::read(path); });
}

}  // namespace

TEST_CASE("fuzz corpus: an archive has its files in the order of their names") {
  const auto files = CorpusArchive::read(archive_path);
  REQUIRE(files.size() >= 19);
  for (std::size_t i = 1; i < files.size(); ++i) CHECK(files[i - 1].name < files[i].name);
}

TEST_CASE("fuzz corpus: an archive that is missing, empty, cut or damaged is refused") {
  const std::string sound = read_file(archive_path);
  CHECK_THAT(message_of<std::runtime_error>([] { CorpusArchive::read("/nowhere/a.tar"); }),
             Catch::Contains("cannot read /nowhere/a.tar"));
  CHECK_THAT(refusal(""), Catch::Contains("a.tar is cut: no end of the archive"));
  CHECK_THAT(refusal(std::string(1024, '\0')), Catch::Contains("has no files"));
  CHECK_THAT(refusal(sound.substr(0, sound.size() - 1024)), Catch::Contains("is cut"));
  std::string other_name = sound;
  other_name[0] = 'B';
  CHECK_THAT(refusal(other_name), Catch::Contains("the checksum of a header differs"));
  CHECK_THAT(refusal(std::string(2048, 'x')), Catch::Contains("a header is not ustar"));
}
