#pragma once

namespace moh::cli {

/// Opens something in place of standard input, output and error where the caller closed them (`moh ... >&-`).
/// Else the next file that the program opens would get the stream's number, and console lines would go into a
/// checkpoint.
void occupy_closed_streams();

/// Flushes standard output. Throws StorageError when any of what was written to it did not arrive: results
/// that a full disk swallowed must not look like success.
void require_written_output();

}  // namespace moh::cli
