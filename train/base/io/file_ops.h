#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

// Everything that changes the disk goes through these functions and OutputFile, so that every such operation
// is a failure point and is traced (train/base/io/failpoint.h). All of them throw StorageError.

/// The folder that holds the entry of `path`; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Throws StorageError for `error` (an errno) of `operation` on `path`. If the disk, a quota or the file size
/// limit is exhausted, the message names the bytes still needed (if not 0) and those free.
[[noreturn]] void throw_storage_error(const std::filesystem::path& path, std::string_view operation,
                                      int error, std::uint64_t needed_bytes = 0);

/// Throws StorageError for the errno of opening a file of a run. The file must not be a symbolic link
/// (O_NOFOLLOW), as the run would truncate or append to its target.
[[noreturn]] void throw_open_error(const std::filesystem::path& path, int error);

/// Opens a file of a run for reading and appending, and creates it if missing. Throws StorageError, also if
/// it is not a regular file.
int open_to_append(const std::filesystem::path& path);

/// Makes a write beyond the file size limit (ulimit -f) an error instead of a fatal signal (SIGXFSZ).
/// Idempotent; does not replace an installed handler.
void ignore_file_size_signal();

/// Writes all of `bytes` at the file position of `fd`, continuing after interruptions and short writes.
/// `needed_bytes` is what the caller still has to write, including `bytes`, for the error of a full disk.
void write_fully(int fd, const std::filesystem::path& path, std::span<const std::byte> bytes,
                 std::uint64_t needed_bytes);

/// fsync(). Do not retry after a failure: the kernel may have dropped the data that it could not write, and a
/// second fsync would then succeed nevertheless.
void sync_file(int fd, const std::filesystem::path& path);

/// Syncs the entries of a folder (created, renamed and removed names) to disk.
void sync_directory(const std::filesystem::path& path);

/// Creates the folder and missing parents, each durably. Does nothing if it exists.
void make_directories(const std::filesystem::path& path);
/// Creates a folder, whose parent must exist, if it is not there.
void make_directory(const std::filesystem::path& path);

/// The paths of the entries of a folder, in no particular order.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& path);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Exchanges the names of two entries of a folder atomically. Returns false, without changing anything, if
/// the file system or the kernel does not support it, as many network file systems.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);

/// Removes a file, or a folder with its contents. Symbolic links are removed, not followed. Does nothing if
/// the path does not exist.
void remove_tree(const std::filesystem::path& path);

/// 16 random hexadecimal digits, for unique names of temporary files.
std::string random_suffix();

}  // namespace moh
