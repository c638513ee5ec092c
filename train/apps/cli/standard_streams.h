#pragma once

namespace moh::cli {

/// Opens a replacement for standard input, output and error if the caller closed them (`moh ... >&-`).
/// Otherwise the next file that the program opens would get that file descriptor, and console output could be
/// written to a checkpoint.
void occupy_closed_streams();

/// Flushes standard output. Throws StorageError if any write to it failed: results lost to a full disk must
/// not look like success.
void require_written_output();

}  // namespace moh::cli
