#include "train/data/token_file.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::string_view kMakeAgain = "write it again with 'moh data tokenize'";

/// Calls use(number of the first id, ids as stored) over blocks of [begin, begin + count).
template <class Stored, class Use>
void for_each_block(const InputFile& file, std::int64_t begin, std::int64_t count, Use use) {
  std::array<Stored, (32 << 10) / sizeof(Stored)> block;
  for (std::int64_t done = 0; done < count;) {
    const auto step = std::min<std::int64_t>(count - done, static_cast<std::int64_t>(block.size()));
    const auto ids = std::span(block).first(static_cast<std::size_t>(step));
    const auto offset = static_cast<std::uint64_t>(begin + done) * sizeof(Stored) + kTokenFileHeaderBytes;
    file.read(offset, std::as_writable_bytes(ids), "ids");
    use(begin + done, std::span<const Stored>(ids));
    done += step;
  }
}

/// Throws unless all ids of a block lie in the vocabulary.
template <class Stored>
void check_ids(const InputFile& file, const TokenFileInfo& info, std::int64_t first,
               std::span<const Stored> ids) {
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (static_cast<std::int64_t>(*largest) < info.vocab_size) return;
  file.fail("id " + std::to_string(first + (largest - ids.begin())),
            "less than the vocabulary size (" + std::to_string(info.vocab_size) + ")",
            std::to_string(*largest), std::string("the file is damaged: ").append(kMakeAgain));
}

template <class Visit>
void visit_stored(const TokenFileInfo& info, Visit visit) {
  if (info.bytes_per_token() == 2) {
    visit.template operator()<std::uint16_t>();
  } else {
    visit.template operator()<std::uint32_t>();
  }
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

TokenFile::TokenFile(const std::string& path)
    : file_(path, InputKind::kData), info_(read_token_file_header(file_)) {}

std::shared_ptr<const TokenFile> TokenFile::open(const std::string& path) {
  std::shared_ptr<const TokenFile> file(new TokenFile(path));
  if (file->info().payload_bytes() <= kVerifiedOnOpenBytes) file->verify();
  return file;
}

void TokenFile::copy(std::int64_t begin, std::span<TokenId> ids) const {
  MOH_CHECK(begin >= 0 && begin <= size() && static_cast<std::int64_t>(ids.size()) <= size() - begin,
            "TokenFile: range outside the file");
  visit_stored(info_, [&]<class Stored>() {
    for_each_block<Stored>(file_, begin, static_cast<std::int64_t>(ids.size()),
                           [&](std::int64_t first, std::span<const Stored> block) {
                             check_ids(file_, info_, first, block);
                             std::copy(block.begin(), block.end(), ids.begin() + (first - begin));
                           });
  });
}

void TokenFile::verify() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  visit_stored(info_, [&]<class Stored>() {
    for_each_block<Stored>(file_, 0, size(), [&](std::int64_t first, std::span<const Stored> block) {
      check_ids(file_, info_, first, block);
      XXH3_64bits_update(hash.get(), block.data(), block.size_bytes());
    });
  });
  const std::uint64_t found = XXH3_64bits_digest(hash.get());
  if (found != info_.payload_checksum) {
    file_.fail("ids", "checksum " + hex(info_.payload_checksum), hex(found),
               std::string("the file is damaged: ").append(kMakeAgain));
  }
}

void TokenFile::require_tokenizer(const Tokenizer& tokenizer) const {
  const auto name = [](std::string_view tokenizer_name, std::uint64_t hash, std::int64_t vocab_size) {
    return "'" + std::string(tokenizer_name) + "' (" + hex(hash) + ", " + std::to_string(vocab_size) +
           " ids)";
  };
  const std::string expected = name(tokenizer.name(), tokenizer.content_hash(), tokenizer.vocab_size());
  const std::string found = name(info_.tokenizer_name, info_.tokenizer_hash, info_.vocab_size);
  if (expected == found) return;
  file_.fail(
      "tokenizer", expected, found,
      "set the tokenizer that the file was made with, or write the file again with 'moh data tokenize'");
}

bool is_token_file(const std::string& path) {
  return has_token_file_magic(InputFile(path, InputKind::kData));
}

std::string describe(const TokenFileInfo& info) {
  return "tokens      " + std::to_string(info.num_tokens) + " (" + std::to_string(info.bytes_per_token()) +
         " bytes each)\ndocuments   " + std::to_string(info.num_documents) + "\ntext bytes  " +
         std::to_string(info.text_bytes) + "\ntokenizer   " + info.tokenizer_name + " (" +
         hex(info.tokenizer_hash) + ")\nvocabulary  " + std::to_string(info.vocab_size) + "\nchecksum    " +
         hex(info.payload_checksum) + "\n";
}

}  // namespace moh
