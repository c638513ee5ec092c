#include "train/tasks/language/data/token_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::string_view kMakeAgain = "the file is damaged: write it again with 'moh data tokenize'";

template <class Visit>
void visit_stored(std::string_view stored_dtype, Visit visit) {
  if (stored_dtype == "U8") return visit.template operator()<std::uint8_t>();
  if (stored_dtype == "U16") return visit.template operator()<std::uint16_t>();
  if (stored_dtype == "U32") return visit.template operator()<std::uint32_t>();
  if (stored_dtype == "I32") return visit.template operator()<std::int32_t>();
  MOH_CHECK(stored_dtype == "I64", "a type of token files");
  visit.template operator()<std::int64_t>();
}

/// Throws unless all ids of a block, the first of which has the number `first`, lie in the vocabulary.
template <class Stored>
void check_ids(const std::string& path, std::int64_t vocab_size, std::int64_t first,
               std::span<const Stored> ids) {
  const auto is_beyond = [size = static_cast<std::uint64_t>(vocab_size)](Stored id) {
    return static_cast<std::uint64_t>(id) >= size;  // a negative one, too
  };
  bool any = false;
  for (const Stored id : ids) any |= is_beyond(id);  // without a branch: many at once
  if (!any) return;
  const auto bad = std::ranges::find_if(ids, is_beyond);
  throw DataError(error_message(path, "id " + std::to_string(first + (bad - ids.begin())),
                                "0 ... " + std::to_string(vocab_size - 1), std::to_string(*bad), kMakeAgain));
}

/// Calls use(number of the first id, ids as stored) over blocks of [begin, begin + count), checked.
template <class Stored, class Use>
void for_each_block(const std::string& path, const TokenFileInfo& info, const TokenFile::ReadElements& read,
                    std::int64_t begin, std::int64_t count, Use use) {
  std::array<Stored, (32 << 10) / sizeof(Stored)> block;
  for (std::int64_t done = 0; done < count;) {
    const auto step = std::min<std::int64_t>(count - done, static_cast<std::int64_t>(block.size()));
    const auto ids = std::span(block).first(static_cast<std::size_t>(step));
    read(static_cast<std::uint64_t>(begin + done) * sizeof(Stored), std::as_writable_bytes(ids));
    check_ids(path, info.vocab_size, begin + done, std::span<const Stored>(ids));
    use(begin + done, std::span<const Stored>(ids));
    done += step;
  }
}

}  // namespace

std::shared_ptr<const TokenFile> TokenFile::open(const std::string& path) {
  if (token_file_kind(path) == TokenFileKind::kNone) {
    throw DataError(
        error_message(path, "", "a moh token file", "other contents", "make one with 'moh data tokenize'"));
  }
  const auto tensors = std::make_shared<const SafetensorsFile>(path);
  const auto read = [tensors](std::uint64_t offset, std::span<std::byte> to) {
    tensors->read(tensors->tensors().front(), offset, to);
  };
  auto file = std::make_shared<const TokenFile>(path, read_token_file_info(*tensors), read);
  if (tensors->tensors().front().bytes <= kVerifiedOnOpenBytes) file->verify();
  return file;
}

TokenFile::TokenFile(std::string path, TokenFileInfo info, ReadElements read)
    : path_(std::move(path)), info_(std::move(info)), read_(std::move(read)) {}

void TokenFile::copy(std::int64_t begin, std::span<TokenId> ids) const {
  MOH_CHECK(begin >= 0 && begin <= size() && static_cast<std::int64_t>(ids.size()) <= size() - begin,
            "TokenFile: range outside the file");
  visit_stored(info_.stored_dtype, [&]<class Stored>() {
    for_each_block<Stored>(path_, info_, read_, begin, static_cast<std::int64_t>(ids.size()),
                           [&](std::int64_t first, std::span<const Stored> block) {
                             std::ranges::transform(block, ids.begin() + (first - begin),
                                                    [](Stored id) { return static_cast<TokenId>(id); });
                           });
  });
}

void TokenFile::stream(FunctionRef<void(std::span<const std::byte>)> sink) const {
  visit_stored(info_.stored_dtype, [&]<class Stored>() {
    for_each_block<Stored>(path_, info_, read_, 0, size(),
                           [&](std::int64_t, std::span<const Stored> block) { sink(std::as_bytes(block)); });
  });
}

void TokenFile::verify() const {
  Checksum elements;
  stream([&](std::span<const std::byte> block) { elements.update(block); });
  if (info_.checksum.empty()) return;
  const std::string found = token_file_checksum(elements, info_);
  if (found != info_.checksum)
    throw DataError(error_message(path_, "", "checksum " + info_.checksum, found, kMakeAgain));
}

void TokenFile::require_tokenizer(const Tokenizer& tokenizer) const {
  const auto text = [](std::string_view name, std::string_view hash, std::int64_t vocab_size) {
    return "'" + std::string(name) + "' (" + std::string(hash) + (hash.empty() ? "" : ", ") +
           std::to_string(vocab_size) + " ids)";
  };
  const std::string hash = info_.tokenizer_hash.empty() ? "" : hash_text(tokenizer.content_hash());
  const std::string expected = text(tokenizer.name(), hash, tokenizer.vocab_size());
  const std::string found = text(info_.tokenizer_name, info_.tokenizer_hash, info_.vocab_size);
  if (expected == found) return;
  throw DataError(error_message(
      path_, "tokenizer", expected, found,
      "set the tokenizer that the file was made with, or write the file again with 'moh data tokenize'"));
}

}  // namespace moh
