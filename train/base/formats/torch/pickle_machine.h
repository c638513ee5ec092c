#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/base/formats/torch/pickle.h"

namespace moh {

/// Python's pickle machine without side effects: a stack of values, marks in it, and a memo. The operations
/// of the opcodes (pickle.cpp) succeed or throw the error of the pickle's text. Its memory is limited by the
/// bounds of pickle.h.
class PickleMachine {
 public:
  explicit PickleMachine(PickleText text) : tree_(std::move(text)) {}

  /// The text, positioned at the next byte to read.
  PickleText& text() { return tree_.text_; }
  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix = "") const;
  /// Returns the values at the end; the only value on the stack is the root.
  PickleTree finish();

  // Values
  void push(PickleKind kind, std::uint64_t value = 0);
  /// Pushes the next `size` bytes of the text.
  void push_bytes(PickleKind kind, std::uint64_t size);
  void push_global(const std::string& module, const std::string& name);
  /// Pushes a global with both names taken from the stack.
  void push_global();

  // The stack
  void duplicate();
  PickleId pop();
  /// Pops a value, or the mark if that is on top.
  void pop_value();
  std::vector<PickleId> pop_last(std::size_t count);
  void push_mark();
  /// Pops the values above the last mark, and the mark.
  std::vector<PickleId> pop_to_mark();

  // The memo
  void remember(std::size_t index);
  /// Remembers under the next free index.
  void remember() { remember(num_memoized_); }
  void recall(std::size_t index);

  // Containers
  void push_container(PickleKind kind, std::vector<PickleId> items);
  /// Appends to the container, or to the object used as one, on top of the stack.
  void append(PickleKind kind, const std::vector<PickleId>& values);

  // Objects: results of calls that are not made, `callable(*args)` and `callable(*args, **keywords)`
  void make_object();
  void make_object_with_keywords();
  /// Sets the state of the object on top of the stack.
  void set_state(PickleId state);

 private:
  static constexpr PickleId kUnset = std::numeric_limits<PickleId>::max();

  PickleId add(PickleNode node);
  void push(PickleId id);
  std::size_t open_values() const;
  void require(std::size_t count) const;
  PickleId top() const;
  void count_items(std::size_t more);
  void push_object(PickleId callable, PickleId args);

  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // size of the stack at each mark
  std::vector<PickleId> memo_;
  std::size_t num_memoized_ = 0;
  std::size_t num_items_ = 0;
  std::unordered_map<std::string, std::uint32_t> name_indices_;
};

}  // namespace moh
