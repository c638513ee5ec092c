#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "train/base/formats/pictures/decode_picture.h"

namespace moh {

/// Pictures, or what was made of them, with their labels by number. Immutable and thread-safe.
class LabelledSource {
 public:
  virtual ~LabelledSource() = default;

  virtual std::int64_t size() const = 0;
  /// The class of a picture: an index into class_names().
  virtual std::int64_t label(std::int64_t index) const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  /// Their number, without making their names.
  virtual std::int64_t num_classes() const { return static_cast<std::int64_t>(class_names().size()); }
  /// A name for messages: its path.
  virtual std::string name(std::int64_t index) const = 0;
  /// Number, classes, a checksum of the list of pictures and one of their sizes and a sample of their
  /// contents: equal for equal data, wherever they lie.
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
    const auto named = [&] { return name(index); };
    return decode_picture(bytes, named, region);
  }
};

using PictureSourcePtr = std::shared_ptr<const PictureSource>;

/// Resizes `bytes` for the file of a picture. Throws DataError naming the picture for one that is larger than
/// any picture's, 1 GiB, and where the system refuses the memory.
void resize_for_picture(std::vector<std::byte>& bytes, std::uint64_t size, PictureName name);

/// Calls make(). Throws DataError naming the picture where the system refuses memory for it.
template <class Make>
void with_memory(PictureName name, Make make) {
  try {
    make();
  } catch (const std::bad_alloc&) {
    refuse_without_memory(name());
  }
}

/// Reads a picture's file into `bytes`, whose memory is reused. Throws DataError naming the file.
void read_picture_file(const std::filesystem::path& path, std::vector<std::byte>& bytes);

/// Opens pictures of any kind:
/// - a folder with a folder per class, as torchvision's ImageFolder (open_picture_folder);
/// - tar archives, or a folder of them (open_picture_shards);
/// - CIFAR-10's binary files (open_cifar_batches).
/// `class_names`, if not empty, are those of the training data: the labels are theirs then. `classes` is the
/// model's number of classes, if it is known: labels that are numbers are smaller than it, or else than 2^20.
/// Throws DataError for anything else, for classes that are not among them, and for a source that is not
/// sound (check_source()).
PictureSourcePtr open_pictures(const std::vector<std::string>& paths,
                               const std::vector<std::string>& class_names = {}, std::int64_t classes = 0);

}  // namespace moh
