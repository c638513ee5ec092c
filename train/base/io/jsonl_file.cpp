#include "train/base/io/jsonl_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

std::uint64_t size_of(int fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_storage_error(path, "stat", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

/// Position after the last newline, 0 if there is none. Reads backwards, as the incomplete line is at the
/// end.
std::uint64_t end_of_last_line(int fd, const fs::path& path, std::uint64_t size) {
  std::array<char, 4096> block;
  while (size > 0) {
    const std::uint64_t begin = size > block.size() ? size - block.size() : 0;
    const ssize_t count = ::pread(fd, block.data(), size - begin, static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw_storage_error(path, "read", count < 0 ? errno : EIO);
    for (ssize_t i = count; i > 0; --i) {
      if (block[static_cast<std::size_t>(i - 1)] == '\n') return begin + static_cast<std::uint64_t>(i);
    }
    size = begin;
  }
  return 0;
}

void truncate_to(int fd, const fs::path& path, std::uint64_t size) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) throw_storage_error(path, "truncate", errno);
}

/// Whether a record is of a later step than `step`, or of this step and of `kind`.
bool is_repeated(const std::string& line, std::int64_t step, std::string_view kind) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return false;
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number_integer()) return false;
  const auto of = found->get<std::int64_t>();
  const auto its_kind = record.find("kind");
  return of > step || (of == step && !kind.empty() && its_kind != record.end() && *its_kind == kind);
}

}  // namespace

JsonlFile::JsonlFile(fs::path path) : path_(std::move(path)) {
  ignore_file_size_signal();
  open();
}

JsonlFile::~JsonlFile() {
  if (fd_ >= 0) ::close(fd_);
}

void JsonlFile::open() {
  fd_ = open_to_append(path_);
  const std::uint64_t size = size_of(fd_, path_);
  const std::uint64_t whole = end_of_last_line(fd_, path_, size);
  was_torn_ = was_torn_ || whole != size;
  if (whole != size) truncate_to(fd_, path_, whole);
}

std::int64_t JsonlFile::drop_records_after(std::int64_t step, std::string_view repeated_kind) {
  constexpr std::size_t kBlockBytes = 1 << 20;
  DurableFile shorter(path_);
  std::string block;
  std::int64_t dropped = 0;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (is_repeated(line, step, repeated_kind)) {
      ++dropped;
      continue;
    }
    block.append(line).append("\n");
    if (block.size() >= kBlockBytes) shorter.write(std::exchange(block, {}));
  }
  if (in.bad() || !in.eof())
    throw StorageError(error_message(path_.string(), "", "a readable file", "a read error"));
  if (dropped == 0) return 0;  // discards the copy
  shorter.write(block);
  shorter.commit();
  ::close(std::exchange(fd_, -1));
  open();
  return dropped;
}

void JsonlFile::append(std::string_view record) {
  MOH_CHECK(record.find('\n') == std::string_view::npos, "a record is one line");
  const std::uint64_t end = size_of(fd_, path_);
  const std::string line = std::string(record) + '\n';
  try {
    write_fully(fd_, path_, std::as_bytes(std::span(line)), line.size());
  } catch (const StorageError&) {
    truncate_to(fd_, path_, end);
    throw;
  }
}

void JsonlFile::sync() {
  sync_file(fd_, path_);
}

}  // namespace moh
