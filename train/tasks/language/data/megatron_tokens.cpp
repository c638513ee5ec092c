#include "train/tasks/language/data/megatron_tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "train/formats/stored_dtype.h"

namespace moh {

namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);

/// Numbers in the file, which are little-endian, read a block at a time.
template <class Number>
class Numbers {
 public:
  Numbers(const InputFile& file, std::uint64_t begin, std::uint64_t count, std::string_view what)
      : file_(file), next_(begin), left_(count), what_(what) {}

  Number next() {
    if (at_ == held_) fill();
    return block_[at_++];
  }

 private:
  void fill() {
    held_ = std::min<std::uint64_t>(left_, block_.size());
    file_.read(next_, std::as_writable_bytes(std::span(block_).first(held_)), what_);
    next_ += held_ * sizeof(Number);
    left_ -= held_;
    at_ = 0;
  }

  const InputFile& file_;
  std::uint64_t next_, left_;
  std::string_view what_;
  std::array<Number, 4096> block_{};
  std::size_t at_ = 0, held_ = 0;
};

/// By the number that stands for a type; "" for numbers that are no integers.
std::string_view dtype_of(unsigned char code) {
  constexpr std::string_view kTypes[] = {"", "U8", "I8", "I16", "I32", "I64", "", "", "U16"};
  return code < std::size(kTypes) ? kTypes[code] : "";
}

struct IndexHeader {
  std::uint64_t version, sequences, documents;
  unsigned char dtype;
};

constexpr std::uint64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

IndexHeader read_header(const InputFile& file) {
  std::array<char, kHeaderBytes> bytes{};
  file.read(0, std::as_writable_bytes(std::span(bytes)), "header");
  if (!looks_like_megatron({bytes.data(), bytes.size()}))
    file.fail("", "an index of Megatron-LM", "other contents");
  IndexHeader header{};
  std::memcpy(&header.version, bytes.data() + 9, 8);
  header.dtype = static_cast<unsigned char>(bytes[17]);
  std::memcpy(&header.sequences, bytes.data() + 18, 8);
  std::memcpy(&header.documents, bytes.data() + 26, 8);
  return header;
}

/// Throws unless the file has room for its numbers: 4 bytes and 8 bytes for each sequence, 8 for each
/// document, and possibly one for each sequence (its mode).
void check_size(const InputFile& file, const IndexHeader& header) {
  const std::uint64_t rest = file.size() - kHeaderBytes;
  const bool fits = header.sequences <= rest / 12 && header.documents <= rest / 8;
  const std::uint64_t bytes = fits ? 12 * header.sequences + 8 * header.documents : 0;
  if (!fits || (rest != bytes && rest != bytes + header.sequences)) {
    file.fail("size",
              "that of " + std::to_string(header.sequences) + " sequences and " +
                  std::to_string(header.documents) + " bounds of documents",
              std::to_string(file.size()) + " bytes");
  }
}

}  // namespace

bool looks_like_megatron(std::string_view first_bytes) {
  return first_bytes.starts_with(kMagic);
}

MegatronIndex read_megatron_index(const InputFile& file) {
  const IndexHeader header = read_header(file);
  if (header.version != 1) file.fail("version", "1", std::to_string(header.version));
  MegatronIndex index{.stored_dtype = dtype_of(header.dtype)};
  if (index.stored_dtype.empty())
    file.fail("type", "a code of integers", "code " + std::to_string(header.dtype));
  check_size(file, header);
  if (header.sequences == 0) file.fail("sequences", "at least one", "none");

  const std::uint64_t pointers_at = kHeaderBytes + 4 * header.sequences;
  Numbers<std::int32_t> sizes(file, kHeaderBytes, header.sequences, "sizes of sequences");
  Numbers<std::int64_t> pointers(file, pointers_at, header.sequences, "pointers");
  Numbers<std::int64_t> bounds(file, pointers_at + 8 * header.sequences, header.documents, "documents");
  const std::int64_t item = find_safetensors_dtype(index.stored_dtype)->bits / 8;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  std::uint64_t bounds_left = header.documents;
  std::int64_t bound = 0;  // the sequence with which the next document begins
  const auto pass_bounds = [&](std::int64_t sequence) {
    while (bound == sequence) {
      if (index.num_tokens > (index.ends.empty() ? 0 : index.ends.back()))
        index.ends.push_back(index.num_tokens);
      if (bounds_left == 0) {
        bound = -1;
        return;
      }
      --bounds_left;
      const std::int64_t next = bounds.next();
      if (next < bound) file.fail("documents", "bounds in order", std::to_string(next));
      bound = next;
    }
  };
  const auto sequences = static_cast<std::int64_t>(header.sequences);
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    pass_bounds(sequence);
    const std::int64_t size = sizes.next(), pointer = pointers.next();
    if (size < 0 || size > most - index.num_tokens)
      file.fail("sequence " + std::to_string(sequence), "a size", std::to_string(size));
    if (pointer != index.num_tokens * item) {
      file.fail("sequence " + std::to_string(sequence),
                "sequences one after the other, this one at byte " + std::to_string(index.num_tokens * item),
                std::to_string(pointer));
    }
    index.num_tokens += size;
  }
  pass_bounds(sequences);
  if (bound != -1 || bounds_left != 0)
    file.fail("documents", "bounds within its " + std::to_string(sequences) + " sequences", "others");
  if (index.num_tokens == 0) file.fail("sequences", "at least one id", "none");
  if (index.ends.empty() || index.ends.back() != index.num_tokens) index.ends.push_back(index.num_tokens);
  return index;
}

}  // namespace moh
