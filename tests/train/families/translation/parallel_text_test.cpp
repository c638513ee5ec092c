#include "train/families/translation/data/parallel_text.h"

#include <zlib.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/translation/make_catalog.h"
#include "train/families/translation/data/text_lines.h"

using namespace moh;
using Catch::Contains;
using moh::test::catalog_header;
using moh::test::make_catalog;

namespace {

using Pairs = std::vector<TextPair>;

Pairs all_pairs(ParallelReader& reader) {
  Pairs pairs;
  for (TextPair pair; reader.next(pair);) pairs.push_back(pair);
  return pairs;
}

Pairs read_pairs(const std::filesystem::path& path, const ParallelOptions& options = {}) {
  ParallelReader reader({{path, {}}}, options);
  return all_pairs(reader);
}

const Pairs two_pairs = {{"One house.", "Ein Haus."}, {"Two houses.", "Zwei Häuser."}};

std::string gzip_file(const std::filesystem::path& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path.string();
}

}  // namespace

TEST_CASE("parallel text: two files, tab-separated text and JSON Lines have the same pairs") {
  const TemporaryFolder folder;
  const std::string source = write_file(folder / "a.en", "One house.\r\n  Two  houses. \n");
  const std::string target = gzip_file(folder / "a.de.gz", "Ein Haus.\nZwei\u00a0Häuser.");
  ParallelReader lines({{source, target}});
  CHECK(all_pairs(lines) == Pairs{two_pairs[0], {"Two houses.", "Zwei\u00a0Häuser."}});

  const std::string tabs = "One house.\tEin Haus.\r\nTwo houses.\tZwei Häuser.\tCC-BY\n";
  CHECK(read_pairs(write_file(folder / "a.tsv", tabs)) == two_pairs);
  CHECK(read_pairs(write_file(folder / "a.txt", tabs)) == two_pairs);

  const std::string records =
      "{\"source\": \"One house.\", \"target\": \"Ein Haus.\"}\n\n"
      "{\"target\": \"Zwei\\nHäuser.\", \"source\": \"Two houses.\"}\n";
  CHECK(read_pairs(write_file(folder / "a.jsonl", records)) == two_pairs);
  CHECK(read_pairs(gzip_file(folder / "a.ndjson.gz", records)) == two_pairs);
}

TEST_CASE("parallel text: keys of JSON Lines may lie in an inner object") {
  const TemporaryFolder folder;
  const std::string path =
      write_file(folder / "a.jsonl", "{\"translation\": {\"en\": \"One house.\", \"de\": \"Ein Haus.\"}}\n");
  const ParallelOptions options{.source_key = "translation.en", .target_key = "translation.de"};
  CHECK(read_pairs(path, options) == Pairs{two_pairs[0]});
  CHECK_THROWS_WITH(read_pairs(path),
                    Contains("a.jsonl:1: expected a text at the key 'source', found no such key"));
  for (const char* key : {"", "{en}"})
    CHECK_THROWS_WITH(read_pairs(path, {.source_key = key}), Contains("expected a key without braces"));
}

TEST_CASE("parallel text: pairs that are left out are counted by reason") {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.tsv", "a\tb\n\n \t \nc\t\n\td\na\tb\nsame \tsame\na\tB\n");
  ParallelReader reader({{path, {}}});
  CHECK(all_pairs(reader) == Pairs{{"a", "b"}, {"a", "B"}});
  CHECK(reader.dropped().describe() == "4 empty, 1 duplicate, 1 equal");
  CHECK(reader.dropped().count() == 6);
  CHECK(reader.dropped().count("duplicate") == 1);
  CHECK(reader.dropped().count("other") == 0);
  CHECK(read_pairs(path, {.keep_equal = true, .keep_duplicates = true}).size() == 4);
}

TEST_CASE("parallel text: a folder of catalogs is read in the order of names") {
  const TemporaryFolder folder;
  write_file(folder / "b.mo",
             make_catalog({catalog_header("UTF-8"), {"_Close", "S_chließen"}, {"Open", "Öffnen"}}));
  write_file(folder / "a.mo",
             make_catalog({{"Open", "Öffnen"}, {"KiB", "KiB"}, {"Line\nbreak", "Zeilen\numbruch"}}));
  write_file(folder / "c.mo", "no catalog, but long enough to be one");
  write_file(folder / "README", "notes");
  write_file(folder / "inner/d.tsv", "one\teins\n");
  ParallelReader reader({{folder.path(), {}}});
  const Pairs expected = {
      {"Open", "Öffnen"}, {"Line break", "Zeilen umbruch"}, {"Close", "Schließen"}, {"one", "eins"}};
  CHECK(all_pairs(reader) == expected);
  CHECK(reader.dropped().describe() == "1 equal, 1 duplicate");
  CHECK_THAT(reader.skipped().describe(), Contains("1 of another format (first: ") && Contains("README)") &&
                                              Contains("1 unreadable catalog (first: ") && Contains("c.mo)"));
  CHECK_THROWS_WITH(read_pairs(folder / "c.mo"), Contains("c.mo: expected a message catalog (.mo)"));
}

TEST_CASE("parallel text: faults name file and line") {
  const TemporaryFolder folder;
  const std::string en = write_file(folder / "a.en", "one\ntwo\nthree\n"),
                    de = write_file(folder / "a.de", "eins\n");
  ParallelReader uneven({{en, de}}), other({{de, en}});
  CHECK_THROWS_WITH(all_pairs(uneven),
                    Contains("a.en: expected as many lines as in " + de + ", 1, found more"));
  CHECK_THROWS_WITH(all_pairs(other),
                    Contains("a.en: expected as many lines as in " + de + ", 1, found more"));
  CHECK_THROWS_WITH(
      read_pairs(write_file(folder / "a.tsv", "a\tb\nplain\n")),
      Contains("a.tsv:2: expected a sentence, a tab and its translation, found no tab in 'plain'"));
  CHECK_THROWS_WITH(read_pairs(write_file(folder / "b.tsv", std::string("a\0b\tc\n", 6))),
                    Contains("a binary file"));
  CHECK_THROWS_WITH(read_pairs(write_file(folder / "b.jsonl", "\n{]\n")), Contains("b.jsonl:2: "));
  CHECK_THROWS_WITH(read_pairs(folder / "none.tsv"), Contains("none.tsv"));
  std::filesystem::create_directory(folder / "empty");
  CHECK_THROWS_WITH(read_pairs(folder / "empty"), Contains("expected a folder with message catalogs (.mo)"));
}

TEST_CASE("parallel text: lines of any length up to the limit") {
  const TemporaryFolder folder;
  const std::string longest(TextLines::kMaxLineBytes, 'x');
  TextLines lines(write_file(folder / "a", "a\n" + longest + "\n\nend"));
  std::string line;
  for (const std::string& expected : {std::string("a"), longest, std::string(), std::string("end")}) {
    REQUIRE(lines.next(line));
    CHECK(line == expected);
  }
  CHECK(lines.count() == 4);
  CHECK_FALSE(lines.next(line));
  TextLines longer(write_file(folder / "b", longest + longest));
  CHECK_THROWS_WITH(longer.next(line),
                    Contains("b:1: expected a line of at most 1048576 bytes, found a longer one"));
}
