#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace moh {

/// The event of a record of metrics.jsonl as TensorBoard reads it: a protocol buffer `tensorflow.Event` in
/// the frame of a TFRecord (length, checksum of the length, event, checksum of the event). Fields that are
/// numbers become scalars with the tag KIND/FIELD ("train/loss", "eval/top1"), NaN and infinity included; a
/// number for each layer becomes scalars KIND/FIELD/layer_N, a list for each layer becomes histograms of that
/// tag, whose bucket h is element h, so that the load of head h is the height at h; an event becomes a scalar
/// 1 event/NAME; the PNG file of the field "picture", a path in the run folder, becomes an image. Empty if
/// there is nothing to show.
std::string tensorboard_event(std::string_view record, const std::filesystem::path& run_folder);

/// The bytes with which a file of events begins.
std::string tensorboard_header();

/// CRC-32C (Castagnoli), as of TFRecord's checksums before they are masked.
std::uint32_t crc32c(std::string_view bytes);

/// The events of a run for TensorBoard, beside its metrics.jsonl and made of it: each record is in it once,
/// however often the run was killed. Throws StorageError.
class TensorBoardFile {
 public:
  /// Readers look for "tfevents" in the names of files.
  static constexpr const char* kName = "events.out.tfevents.moh";

  /// Replaces the file by the events of the records in `metrics`, atomically, and opens it.
  TensorBoardFile(std::filesystem::path path, const std::filesystem::path& metrics);
  ~TensorBoardFile();
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;

  /// Appends the event of a record, given as its line. What a full disk leaves of an event the next opening
  /// replaces.
  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace moh
