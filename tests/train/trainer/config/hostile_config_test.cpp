#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "tests/train/trainer/config/config_folder.h"

// Configs may come from anywhere. Whatever they hold, loading ends soon, with a config or with a ConfigError.
namespace moh {
namespace {

constexpr std::string_view kValid =
    "seed: 1\nprecision: float32\nmodel:\n  preset: moh_llm_s_75\n  layers: 3\n  moh:\n    num_shared: [1, "
    "2, 3]\n"
    "    routed: 2\ndata:\n  train: [a, \"b\"]\noptim: {learning_rate: 1e-3, betas: [0.9, 0.95]}\n"
    "sample:\n  prompt: |\n    text\n    more\n# end\n";

/// Loads the text; anything but a config or a ConfigError fails the test. Returns the seconds it took.
double seconds_to_load(const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  try {
    load_text(text);
  } catch (const ConfigError& error) {
    CHECK(std::string_view(error.what()).size() < 64 * 1024);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("hostile config: every truncation") {
  for (std::size_t size = 0; size < kValid.size(); ++size) {
    INFO(size);
    CHECK(seconds_to_load(std::string(kValid.substr(0, size))) < 1);
  }
}

TEST_CASE("hostile config: changed, doubled and deleted bytes") {
  constexpr RandomKey kKey{1, 1};
  constexpr std::string_view kBytes = " \n\t:-,[]{}#&*!|>'\"%@`?<~\\0aex.\xff\xc3\x00";
  for (std::uint64_t i = 0; i < 800; ++i) {
    std::string text(kValid);
    for (std::uint64_t k = 0; k < 1 + i % 4; ++k) {
      const std::size_t at = random_below(kKey, 16 * i + 4 * k, text.size());
      const char byte = kBytes[random_below(kKey, 16 * i + 4 * k + 1, kBytes.size())];
      switch (random_below(kKey, 16 * i + 4 * k + 2, 3)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        default:
          text.erase(at, 1);
      }
    }
    INFO(text);
    CHECK(seconds_to_load(text) < 1);
  }
}

TEST_CASE("hostile config: YAML's tokens in any order") {
  constexpr RandomKey kKey{1, 2};
  const std::string_view tokens[] = {"a",     "seed",  "train", "model", ": ",   ":",  "\n", "\n  ",
                                     "- ",    "[",     "]",     "{",     "}",    ", ", "? ", "&a",
                                     "*a",    "!t",    "!!int", "|\n",   ">-\n", "'",  "\"", "#",
                                     "---\n", "...\n", "%",     "<<",    "~",    "1",  "\t", "include"};
  for (std::uint64_t i = 0; i < 800; ++i) {
    std::string text;
    for (std::uint64_t k = 0; k < 1 + i % 24; ++k)
      text += tokens[random_below(kKey, 32 * i + k, std::size(tokens))];
    INFO(text);
    CHECK(seconds_to_load(text) < 1);
  }
}

TEST_CASE("hostile config: 64 KiB of one thing") {
  constexpr std::size_t kSize = 64 * 1024;
  for (std::string_view unit : {"[",          "{",        "- ",
                                "? ",         "&a ",      "!a ",
                                "\"",         "'",        "a: ",
                                "[a,",        "{a: b, ",  "a: 1\n",
                                "- a\n",      "#",        "\n",
                                " ",          "\t",       "|",
                                "*a ",        "%",        "---\n",
                                "...\n",      "? a\n",    "!<",
                                "[]",         "[],",      "\\",
                                ",",          ":",        "a",
                                "- [",        "\xc3\xa9", "a: &a\n",
                                ">\n",        "{? ",      "\"\\x41",
                                "%TAG ! !\n", "\n\t",     "include: a.yaml\n"}) {
    for (std::string_view start : {"", "x: [", "train:\n  "}) {
      std::string text(start);
      while (text.size() + unit.size() <= kSize) text += unit;
      INFO(start << unit);
      CHECK(seconds_to_load(text) < 5);
    }
  }
}

TEST_CASE("hostile config: many different keys and values") {
  std::string keys, values = "data: {validation: [", numbers = "model: {moh: {shared: [";
  for (int i = 0; i < 8000; ++i) {
    keys.append("k").append(std::to_string(i)).append(": 1\n");
    values += "[], ";
    numbers += "x, ";
  }
  CHECK(seconds_to_load(keys) < 1);
  CHECK(seconds_to_load(values + "]}\n") < 1);
  CHECK(seconds_to_load(numbers + "]}}\n") < 1);
}

TEST_CASE("hostile config: endless and special files") {
  CHECK_THROWS_WITH(load_run_config("/dev/zero", {}, language_only()),
                    "/dev/zero: expected a config of at most 256 KiB, found a larger file");
  CHECK_THROWS_WITH(load_run_config("/dev/null", {}, language_only()),
                    "/dev/null: expected keys with values, found an empty file");
  CHECK_THROWS_AS(load_run_config("", {}, language_only()), ConfigError);
  CHECK_THROWS_AS(load_run_config(std::string(100000, 'a'), {}, language_only()), ConfigError);
  CHECK_THROWS_AS(load_text("seed: 1\n", {"seed=[" + std::string(1 << 20, '[')}), ConfigError);
  CHECK_THROWS_AS(load_text("seed: 1\n", {std::string(100000, '.') + "=1"}), ConfigError);
  CHECK_THROWS_AS(load_text("seed: 1\n", {std::string(100000, 'a') + "=1"}), ConfigError);
}

}  // namespace
}  // namespace moh
