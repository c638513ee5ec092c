#include "train/data/token_file_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/io/file_ops.h"

namespace moh {

namespace fs = std::filesystem;

struct TokenFileWriter::Impl {
  Impl(fs::path final_path, const Tokenizer& its_tokenizer);
  ~Impl();

  void add(TokenId id);
  void flush();
  void publish();

  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

  const Tokenizer& tokenizer;
  fs::path path;
  fs::path temporary;
  int fd = -1;
  bool published = false;
  TokenFileInfo info;
  std::vector<std::byte> buffer;
  XXH3_state_t* hash = XXH3_createState();
};

TokenFileWriter::Impl::Impl(fs::path final_path, const Tokenizer& its_tokenizer)
    : tokenizer(its_tokenizer), path(std::move(final_path)) {
  temporary = path.parent_path() / ("." + path.filename().string() + ".tmp-" + random_suffix());
  info.vocab_size = tokenizer.vocab_size();
  info.tokenizer_name = tokenizer.name();
  info.tokenizer_hash = tokenizer.content_hash();
  XXH3_64bits_reset(hash);
  ignore_file_size_signal();
  fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    const int error = errno;
    XXH3_freeState(hash);
    throw_storage_error(temporary, "create", error);
  }
  buffer.reserve(kBufferBytes + 4);
}

TokenFileWriter::Impl::~Impl() {
  ::close(fd);
  if (!published) ::unlink(temporary.c_str());
  XXH3_freeState(hash);
}

void TokenFileWriter::Impl::add(TokenId id) {
  if (id < 0 || id >= info.vocab_size) {
    throw ValueError(error_message(path.string(), "token id", "0 ... " + std::to_string(info.vocab_size - 1),
                                   std::to_string(id)));
  }
  const auto bits = static_cast<std::uint32_t>(id);
  for (std::int64_t byte = 0; byte < info.bytes_per_token(); ++byte) {
    buffer.push_back(static_cast<std::byte>(bits >> (8 * byte) & 0xFF));
  }
  if (buffer.size() >= kBufferBytes) flush();
  ++info.num_tokens;
  info.text_bytes += static_cast<std::int64_t>(tokenizer.token_bytes(id).size());
}

void TokenFileWriter::Impl::flush() {
  XXH3_64bits_update(hash, buffer.data(), buffer.size());
  write_fully(fd, temporary, buffer, buffer.size());
  buffer.clear();
}

void TokenFileWriter::Impl::publish() {
  flush();
  info.payload_checksum = XXH3_64bits_digest(hash);
  const auto header = pack_token_file_header(info);
  if (::lseek(fd, 0, SEEK_SET) != 0) throw_storage_error(temporary, "seek in", errno);
  write_fully(fd, temporary, header, header.size());
  sync_file(fd, temporary);
  rename_path(temporary, path);
  published = true;
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

TokenFileWriter::TokenFileWriter(fs::path path, const Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(std::move(path), tokenizer)) {
  // Room for the header, which is written last: a file that was abandoned half-way has none.
  const std::array<std::byte, kTokenFileHeaderBytes> room{};
  write_fully(impl_->fd, impl_->temporary, room, room.size());
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::add_document(std::span<const TokenId> ids) {
  const auto separator = impl_->tokenizer.end_of_document();
  if (separator && impl_->info.num_documents > 0) impl_->add(*separator);
  for (TokenId id : ids) impl_->add(id);
  ++impl_->info.num_documents;
}

TokenFileInfo TokenFileWriter::finish() {
  if (impl_->info.num_tokens == 0) {
    throw DataError(error_message(impl_->path.string(), "", "at least one token to write", "none"));
  }
  impl_->publish();
  return impl_->info;
}

}  // namespace moh
