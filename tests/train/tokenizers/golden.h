#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/tokenizer.h"

namespace moh::test {

/// tests/train/tokenizers.
std::filesystem::path tokenizer_tests();
/// The contents of a JSON file there.
nlohmann::json golden_file(std::string_view name);
/// A byte-level vocabulary of 700 tokens, of which <|endoftext|> is 0.
nlohmann::json gpt2_json();

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text);
std::string decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);
void add_utf8(std::uint32_t code, std::string& text);

/// The planes of Unicode that have characters, and of the others one for each first byte of UTF-8.
inline constexpr std::array<std::uint32_t, 9> kPlanes = {0, 1, 2, 3, 4, 8, 14, 15, 16};

/// Compares a tokenizer with an entry of a golden file: ids and decoded texts, and hashes of the ids of every
/// code point of some planes.
void check_texts_and_planes(const std::string& name, const Tokenizer& tokenizer, const nlohmann::json& texts,
                            const nlohmann::json& expected, std::span<const std::uint32_t> planes = kPlanes);
/// Checks files of text in `shared`/data.
void check_files(const std::string& name, const Tokenizer& tokenizer, const std::filesystem::path& shared,
                 const nlohmann::json& expected);

}  // namespace moh::test
