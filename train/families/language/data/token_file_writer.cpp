#include "train/families/language/data/token_file_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/formats/safetensors.h"
#include "train/base/formats/stored_dtype.h"
#include "train/families/language/tokenizer_rows.h"

namespace moh {

namespace {

/// Space reserved for the header, which is written last, when the number of ids is known.
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// The smallest type that can represent the ids of a vocabulary.
std::string_view stored_dtype_of(std::int64_t vocab_size, bool marks) {
  if (marks) return vocab_size <= 1 << 15 ? "I16" : "I32";
  if (vocab_size <= 1 << 8) return "U8";
  return vocab_size <= 1 << 16 ? "U16" : "I32";
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer, std::string source,
                                 bool marks)
    : tokenizer_(tokenizer), path_(std::move(path)), file_(path_) {
  info_.tokenizer_name = tokenizer.name();
  info_.vocab_size = whole_vocabulary(tokenizer);
  info_.tokenizer_hash = hash_text(tokenizer.content_hash());
  info_.num_documents = info_.text_bytes = 0;
  info_.source = std::move(source);
  info_.stored_dtype = stored_dtype_of(info_.vocab_size, marks);
  if (marks) info_.prompt_tokens = 0;
  bytes_per_id_ = static_cast<std::size_t>(find_safetensors_dtype(info_.stored_dtype)->bits) / 8;
  buffer_.reserve(kBufferBytes + sizeof(TokenId));
  file_.write(std::string(kHeaderBytes, '\0'));
}

void TokenFileWriter::add(std::span<const TokenId> ids) {
  for (TokenId id : ids) add(id);
}

void TokenFileWriter::begin_document() {
  const auto separator = tokenizer_.end_of_document();
  if (separator && *info_.num_documents > 0) add(*separator);
  ++*info_.num_documents;
}

void TokenFileWriter::add(TokenId id) {
  if ((is_marked(id) && !info_.prompt_tokens) || unmarked(id) >= info_.vocab_size) {
    throw ValueError(error_message(path_.string(), "token id",
                                   "0 ... " + std::to_string(info_.vocab_size - 1), std::to_string(id)));
  }
  const auto bytes = std::as_bytes(std::span(&id, 1)).first(bytes_per_id_);  // little-endian, as all hosts
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBufferBytes) flush();
  ++info_.num_tokens;
  if (is_marked(id)) ++*info_.prompt_tokens;
  *info_.text_bytes += static_cast<std::int64_t>(tokenizer_.token_bytes(unmarked(id)).size());
}

void TokenFileWriter::flush() {
  checksum_.update(buffer_);
  file_.write(buffer_);
  buffer_.clear();
}

TokenFileInfo TokenFileWriter::finish() {
  if (info_.num_tokens == 0)
    throw DataError(error_message(path_.string(), "", "at least one token to write", "none"));
  flush();
  info_.checksum = token_file_checksum(checksum_, info_);
  const WeightInfo tokens{"tokens", info_.stored_dtype, {info_.num_tokens}};
  const SafetensorsLayout layout(std::span(&tokens, 1), metadata_of(info_), kHeaderBytes);
  MOH_CHECK(layout.header().size() == kHeaderBytes, "a header that fits its room");
  file_.write_at(0, layout.header());
  file_.commit();
  return info_;
}

}  // namespace moh
