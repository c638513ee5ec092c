#include "train/base/io/printable.h"

#include <catch2/catch.hpp>
#include <string>

using namespace moh;

TEST_CASE("io: utf8: exactly the encodings of code points are characters") {
  const auto encoded = [](unsigned point) -> std::string {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80) return {static_cast<char>(point)};
    if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
    if (point < 0x10000) return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
    return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
  };
  int wrong = 0;
  for (unsigned point = 0; point < 0x200000; ++point) {
    const std::string text = encoded(point);
    const bool sound = point < 0x110000 && (point < 0xD800 || point >= 0xE000);
    wrong += utf8_length(text + "x") != (sound ? text.size() : 0);
    wrong += utf8_length(text) != (sound ? text.size() : 0);
  }
  CHECK(wrong == 0);
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                           "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82", "\xE2(\xAC"}) {
    INFO(printable(text));
    CHECK(utf8_length(text) == 0);
    CHECK_FALSE(is_utf8(std::string("a") + text));
  }
  CHECK(is_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
}

TEST_CASE("io: utf8: a broken character ends where it breaks, an unfinished one with the text") {
  CHECK(utf8_front("\xE2\x82").bytes == 2);
  CHECK(utf8_front("\xE2\x82(").bytes == 2);
  CHECK(utf8_front("\xE2(\xAC").bytes == 1);
  CHECK(utf8_front("\xED\xA0\x80").bytes == 1);  // a surrogate
  CHECK_FALSE(utf8_front("\xE2\x82").complete);
}

TEST_CASE("io: printable text has neither controls nor broken characters") {
  CHECK(printable("a\xC3\xA9\n\x1B[0m\x7F\xC2\x85") == "a\xC3\xA9\\x0a\\x1b[0m\\x7f\\xc2\\x85");
  CHECK(printable("\xED\xA0\x80\xE0\x80\x80") == "\\xed\\xa0\\x80\\xe0\\x80\\x80");
  CHECK(printable("abcdef", 3) == "abc...");
  const std::string folder(300, 'x');
  CHECK(printable_path(folder + "/\x1b") == folder + "/\\x1b");
  CHECK(printable_lines("error: \x1b[0m\n\xFF\n") == "error: \\x1b[0m\n\\xff\n");
}
