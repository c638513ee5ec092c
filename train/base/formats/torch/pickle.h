#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/io/input_file.h"

namespace moh {

/// The bytes of a pickle, read from the file on demand: the end of a pickle is known only after its last
/// opcode, and a wrong length inside it must not allocate memory. Everything read is kept, as the values
/// point into it.
class PickleText {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;

  /// The pickle starts at byte `begin` of the file and ends before byte `end`. `what` names it in messages.
  PickleText(const InputFile& file, std::uint64_t begin, std::uint64_t end, std::string what);

  /// Number of bytes taken so far.
  std::uint64_t taken() const { return position_; }
  /// Number of bytes left up to `end`.
  std::uint64_t left() const { return end_ - begin_ - position_; }
  /// Takes the next `size` bytes; the result is valid until the next call. Throws if there are fewer.
  std::string_view take(std::uint64_t size);
  /// Takes the bytes up to and including a line feed, which is not part of the result. Throws for more than
  /// `most` bytes.
  std::string_view take_line(std::uint64_t most);
  /// Takes `size` bytes, at most 8, as a little-endian number: unsigned; signed (two's complement).
  std::uint64_t take_number(std::size_t size);
  std::int64_t take_signed(std::size_t size);
  /// `size` bytes from `offset` on, which have been taken before.
  std::string_view at(std::uint64_t offset, std::uint64_t size) const {
    return std::string_view(bytes_).substr(offset, size);
  }

  /// Throws the file's kind of error, naming the pickle and the byte of it.
  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix = "") const;

 private:
  void fill(std::uint64_t size);

  const InputFile* file_;
  std::uint64_t begin_;
  std::uint64_t end_;
  std::string what_;
  std::string bytes_;  // of the file from begin_ on
  std::uint64_t position_ = 0;
};

/// Index of a value in its tree.
using PickleId = std::uint32_t;

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< beyond int64
  kFloat,
  kText,   ///< str
  kBytes,  ///< bytes, bytearray
  kTuple,
  kList,
  kSet,
  kDict,
  kGlobal,      ///< a class or function, by name
  kObject,      ///< the result of a call that was not made
  kPersistent,  ///< an object stored outside of the pickle; its only item is the reference
};

struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  bool has_state = false;
  bool has_pairs = false;       ///< of an object: its items are (key, value) pairs, as of a dict
  std::uint32_t name = 0;       ///< of kGlobal and kObject
  PickleId args = 0;            ///< of kObject: the tuple of the call's arguments
  PickleId state = 0;           ///< of kObject: the state that was set afterwards (BUILD)
  std::uint32_t size = 0;       ///< bytes of kText, kBytes and kBigInt
  std::uint64_t number = 0;     ///< the value, or the offset of its bytes
  std::vector<PickleId> items;  ///< of a container; of a dict key, value, key, value ...
};

/// The values of a pickle. They form a graph, which may have cycles.
class PickleTree {
 public:
  explicit PickleTree(PickleText text) : text_(std::move(text)) {}

  PickleId root() const { return root_; }
  std::size_t size() const { return nodes_.size(); }
  const PickleNode& node(PickleId id) const { return nodes_[id]; }
  PickleKind kind(PickleId id) const { return nodes_[id].kind; }
  bool is(PickleId id, PickleKind kind) const { return nodes_[id].kind == kind; }

  std::int64_t integer(PickleId id) const { return std::bit_cast<std::int64_t>(nodes_[id].number); }
  double floating(PickleId id) const { return std::bit_cast<double>(nodes_[id].number); }
  /// The bytes of a kText, kBytes or kBigInt (little-endian two's complement).
  std::string_view bytes(PickleId id) const { return text_.at(nodes_[id].number, nodes_[id].size); }
  /// "collections.OrderedDict"; of a kGlobal or kObject.
  const std::string& name(PickleId id) const { return names_[nodes_[id].name]; }
  bool is_text(PickleId id, std::string_view text) const {
    return is(id, PickleKind::kText) && bytes(id) == text;
  }
  bool is_object(PickleId id, std::string_view wanted) const {
    return is(id, PickleKind::kObject) && name(id) == wanted;
  }
  /// The arguments of the call that would have made an object.
  const std::vector<PickleId>& args(PickleId object) const { return nodes_[nodes_[object].args].items; }
  /// Size of the pickle in bytes.
  std::uint64_t taken() const { return text_.taken(); }

 private:
  friend class PickleMachine;

  PickleText text_;
  std::vector<PickleNode> nodes_;
  std::vector<std::string> names_;
  PickleId root_ = 0;
};

inline constexpr std::size_t kMaxPickleValues = 1 << 20;  // of a tree, and on the machine's stack
inline constexpr std::size_t kMaxPickleItems = 1 << 21;   // of all containers of a tree together
inline constexpr std::size_t kMaxPickleName = 1024;       // bytes of a module's, class's or function's name

/// Parses a pickle of protocol 2 to 5 (Python's pickletools.py) into values. Nothing is imported, called or
/// looked up: a class or function is its name, and the result of a call is a kObject.
/// Refuses opcodes that torch.save cannot write (protocols 0 and 1, the extension registry, buffers kept
/// elsewhere), and names of Python's modules sys, os, posix and nt, which only attacks use. Memory: the
/// pickle, and at most some 100 bytes per value of at most kMaxPickleValues.
PickleTree read_pickle(PickleText text);

}  // namespace moh
