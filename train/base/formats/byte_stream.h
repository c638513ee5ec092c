#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "train/base/io/input_file.h"

namespace moh {

/// The contents of a file, read from beginning to end; those of a gzip (RFC 1952) or Zstandard (RFC 8878)
/// file are uncompressed, whatever its name. Memory: two blocks, and what Zstandard's window takes, at most
/// 128 MiB.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills the front of `to` and returns how many bytes; 0 at the end. Throws DataError naming the file if it
  /// cannot be read, is damaged, or ends early.
  virtual std::size_t read(std::span<char> to) = 0;
  /// Bytes of the file that have been read so far, as they lie there.
  virtual std::uint64_t position() const = 0;
};

/// Opens a file. Throws DataError.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path);

/// Whether a file begins as a gzip or Zstandard file.
bool is_compressed(const std::string& path);

}  // namespace moh
