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
// is a failure point and is traced (train/io/failpoint.h). All of them throw StorageError.

/// The folder that holds the entry of `path`; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Throws StorageError for `error` (an errno) of `operation` on `path`. Where the disk, a quota or the file
/// size limit is exhausted, the message names the bytes that were still needed (when not 0) and those free.
[[noreturn]] void throw_storage_error(const std::filesystem::path& path, std::string_view operation,
                                      int error, std::uint64_t needed_bytes = 0);

/// Throws StorageError for the errno of opening a file of a run, which must not be a symbolic link
/// (O_NOFOLLOW): what it leads to would be emptied or appended to.
[[noreturn]] void throw_open_error(const std::filesystem::path& path, int error);

/// Opens a file of a run, for reading and for adding to its end; it is made where it is missing. Throws
/// StorageError, also for what is not a regular file.
int open_to_append(const std::filesystem::path& path);

/// Makes a write past the file size limit (ulimit -f) an error to report instead of a signal that kills.
/// Idempotent; leaves a handler that somebody installed alone.
void ignore_file_size_signal();

/// Writes all of `bytes` at the file position of `fd`, taking up after interruptions and short writes.
/// `needed_bytes` is what the caller still has to write, `bytes` included, for the message when the disk is
/// full.
void write_fully(int fd, const std::filesystem::path& path, std::span<const std::byte> bytes,
                 std::uint64_t needed_bytes);

/// Puts the contents of `fd` on the disk. A failure is final: the kernel may have dropped the data that it
/// failed to write, so that a second fsync would report a success that means nothing.
void sync_file(int fd, const std::filesystem::path& path);

/// Puts the entries of a folder (created, renamed and removed names) on the disk.
void sync_directory(const std::filesystem::path& path);

/// Creates the folder and the missing ones above it, each of them durable. Does nothing where it exists.
void make_directories(const std::filesystem::path& path);

/// The paths of what is in a folder, in no particular order.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& path);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Two entries of one folder take each other's name, in one step. Returns false, having changed nothing,
/// where the file system or the kernel cannot do that, as on many network file systems.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);

/// Removes a file or, with all that is in it, a folder. Symbolic links are removed, not followed. Does
/// nothing where there is nothing.
void remove_tree(const std::filesystem::path& path);

/// 16 hexadecimal digits that no other process picks, for the names of temporary files.
std::string random_suffix();

}  // namespace moh
