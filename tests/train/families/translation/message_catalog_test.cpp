#include "train/families/translation/data/message_catalog.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/translation/make_catalog.h"
#include "train/families/translation/data/accelerator.h"

using namespace moh;
using namespace std::string_literals;
using Catch::Contains;
using moh::test::catalog_header;
using moh::test::CatalogEntries;
using moh::test::make_catalog;

namespace {

std::vector<TextPair> read_catalog(const std::string& bytes, DroppedPairs& dropped) {
  const TemporaryFolder folder;
  return read_message_catalog(write_file(folder / "a.mo", bytes), dropped);
}

std::vector<TextPair> read_catalog(const CatalogEntries& entries) {
  DroppedPairs dropped;
  return read_catalog(make_catalog(entries), dropped);
}

TextPair without_marks(const char* source, const char* target) {
  TextPair pair{source, target};
  remove_accelerator(pair);
  return pair;
}

std::string with_number(std::string bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[offset + i] = static_cast<char>(value >> 8 * i);
  return bytes;
}

}  // namespace

TEST_CASE("message catalog: messages of both byte orders and revisions") {
  const CatalogEntries entries = {catalog_header("UTF-8"),
                                  {"%s: no such file", "%s: Datei nicht gefunden"},
                                  {"Directory not empty\n", "Verzeichnis ist nicht leer\n"}};
  const std::vector<TextPair> expected = {{"%s: no such file", "%s: Datei nicht gefunden"},
                                          {"Directory not empty\n", "Verzeichnis ist nicht leer\n"}};
  for (const bool big_endian : {false, true}) {
    for (const std::uint32_t revision : {0U, 1U, 0x10000U, 0x10001U}) {
      DroppedPairs dropped;
      CHECK(read_catalog(make_catalog(entries, big_endian, revision), dropped) == expected);
      CHECK(dropped.count() == 0);
    }
  }
  CHECK(read_catalog(CatalogEntries{}).empty());
}

TEST_CASE("message catalog: contexts, plural forms and credits") {
  DroppedPairs dropped;
  const CatalogEntries entries = {{"menu\4Open"s, "Öffnen"},
                                  {"file\0files"s, "Datei\0Dateien"s},
                                  {"disc\0discs"s, "ディスク"},
                                  {"day\0days"s, "dzień\0dni\0dnia"s},
                                  {"translator-credits", "A Name <a@b.c>"}};
  const std::vector<TextPair> expected = {
      {"Open", "Öffnen"}, {"file", "Datei"}, {"files", "Dateien"}, {"discs", "ディスク"}, {"days", "dnia"}};
  CHECK(read_catalog(make_catalog(entries), dropped) == expected);
  CHECK(dropped.describe() == "3 plural form, 1 credits");
}

TEST_CASE("message catalog: text becomes UTF-8") {
  const std::vector<TextPair> expected = {{"Close", "Schließen"}};
  CHECK(read_catalog({catalog_header("ISO-8859-1"),
                      {"Close",
                       "Schlie\xdf"
                       "en"}}) == expected);
  CHECK(read_catalog({catalog_header("iso-8859-15"), {"Euro", "\xa4"}})[0].target == "€");
  CHECK(read_catalog({catalog_header("CHARSET"), {"Close", "Schließen"}}) == expected);
  DroppedPairs dropped;
  const CatalogEntries broken = {catalog_header("UTF-8"), {"a", "\xff"}, {"b", "c"}};
  CHECK(read_catalog(make_catalog(broken), dropped) == std::vector<TextPair>{{"b", "c"}});
  CHECK(dropped.describe() == "1 invalid text");
  for (const char* charset : {"UTF-7", "ISO-2022-KR", "UNKNOWN", "GB/../x", ""})
    CHECK_THROWS_WITH(read_catalog({catalog_header(charset), {"a", "b"}}),
                      Contains("charset: expected a known character set"));
}

TEST_CASE("message catalog: marks of accelerator keys are removed") {
  CHECK(without_marks("_Open", "Ö_ffnen") == TextPair{"Open", "Öffnen"});
  CHECK(without_marks("E_xit", "_Beenden") == TextPair{"Exit", "Beenden"});
  CHECK(without_marks("&Save as...", "Speichern &unter ...") ==
        TextPair{"Save as...", "Speichern unter ..."});
  CHECK(without_marks("_OK", "_OK") == TextPair{"OK", "OK"});
  CHECK(without_marks("_File", "文件(_F)") == TextPair{"File", "文件"});
  const std::vector<TextPair> kept = {{"option max_depth is bad", "Option max_depth ist falsch"},
                                      {"FILE_NAME", "DATEI_NAME"},
                                      {"_One _Two", "_Eins"},
                                      {"a_b", "ab"},
                                      {"Find & Replace", "Suchen & Ersetzen"},
                                      {"less &lt; than", "kleiner &lt;als"},
                                      {"AT&T", "AT&T"}};
  for (const TextPair& pair : kept) CHECK(without_marks(pair.source.c_str(), pair.target.c_str()) == pair);
}

TEST_CASE("message catalog: a damaged file is refused") {
  DroppedPairs dropped;
  const std::string good = make_catalog({{"one", "eins"}, {"two", "zwei"}});
  const auto refuses = [&](const std::string& bytes, const char* message) {
    CHECK_THROWS_WITH(read_catalog(bytes, dropped), Contains(message));
  };
  refuses("", "expected a message catalog, found 0 bytes");
  refuses(good.substr(0, 27), "expected a message catalog, found 27 bytes");
  refuses(with_number(good, 0, 1), "expected a message catalog (.mo)");
  refuses(with_number(good, 4, 2U << 16), "major revision: expected 0 or 1, found 2");
  refuses(with_number(good, 8, 0xffffffff), "expected 4294967295 entries inside the file");
  refuses(with_number(good, 12, 0xfffffff0), "messages: expected 2 entries inside the file");
  refuses(with_number(good, 16, static_cast<std::uint32_t>(good.size()) - 15),
          "translations: expected 2 entries");
  refuses(with_number(good, 28, 0xffffffff), "messages: entry 0: expected a string inside the file");
  refuses(with_number(good, 28, 2),
          "messages: entry 0: expected a string inside the file that ends with a NUL");
  refuses(with_number(good, 28 + 20, 0xffffffff), "translations: entry 0");
  refuses(good.substr(0, good.size() - 1), "translations: entry 1");
}

TEST_CASE("message catalog: strings that overlap are refused, as they could fill any memory") {
  // One long string, to which all of many entries point.
  CatalogEntries entries(200, {"", ""});
  entries.emplace_back("m", std::string(2000, 'x'));
  std::string bytes = make_catalog(entries);
  const std::size_t table = 28 + 8 * entries.size();
  const std::string last = bytes.substr(table + 8 * (entries.size() - 1), 8);
  for (std::size_t i = 0; i < entries.size(); ++i) bytes.replace(table + 8 * i, 8, last);
  DroppedPairs dropped;
  CHECK_THROWS_WITH(read_catalog(bytes, dropped), Contains("expected strings that do not overlap"));
}
