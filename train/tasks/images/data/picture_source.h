#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/formats/pictures/decode_picture.h"

namespace moh {

/// Pictures, or what was made of them, with their labels by number. Immutable and thread-safe.
class LabelledSource {
 public:
  virtual ~LabelledSource() = default;

  virtual std::int64_t size() const = 0;
  /// The class of a picture: an index into class_names().
  virtual std::int64_t label(std::int64_t index) const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  /// A name for messages: its path.
  virtual std::string name(std::int64_t index) const = 0;
  /// Number, classes and a checksum of the list of pictures: equal for equal data, wherever they lie. The
  /// pictures themselves are not read for it.
  virtual std::string describe_contents() const = 0;
};

/// Labelled pictures that are decoded on demand.
class PictureSource : public LabelledSource {
 public:
  /// Reads the stored form of a picture, of a JPEG the file, into `bytes`, whose memory is reused. Throws
  /// DataError naming the picture.
  virtual void load(std::int64_t index, std::vector<std::byte>& bytes) const = 0;
  /// Makes the pixels of a region from what load() has read. Throws DataError naming the picture.
  virtual Picture decode(std::int64_t index, const std::vector<std::byte>& bytes, ChooseRegion region) const {
    return decode_picture(bytes, name(index), region);
  }
};

using PictureSourcePtr = std::shared_ptr<const PictureSource>;

/// Reads a picture's file into `bytes`, whose memory is reused. Throws DataError naming the file, also for
/// one that is larger than any picture.
void read_picture_file(const std::filesystem::path& path, std::vector<std::byte>& bytes);

/// Opens pictures of any kind:
/// - a folder with a folder per class, as torchvision's ImageFolder (open_picture_folder);
/// - tar archives, or a folder of them (open_picture_shards);
/// - CIFAR-10's binary files (open_cifar_batches).
/// `class_names`, if not empty, are those of the training data: the labels are theirs then. Throws DataError
/// for anything else, and for classes that are not among them.
PictureSourcePtr open_pictures(const std::vector<std::string>& paths,
                               const std::vector<std::string>& class_names = {});

}  // namespace moh
