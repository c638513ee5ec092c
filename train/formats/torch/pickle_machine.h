#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/formats/torch/pickle.h"

namespace moh {

/// Python's pickle machine without the parts that act: a stack of values, marks in it, and a memo. What each
/// opcode asks of it (pickle.cpp) either succeeds or throws the error of the pickle's text; what it holds
/// stays within the bounds of pickle.h.
class PickleMachine {
 public:
  explicit PickleMachine(PickleText text) : tree_(std::move(text)) {}

  /// The text, from the byte on that is to be read next.
  PickleText& text() { return tree_.text_; }
  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix = "") const;
  /// The values, when the one that is left is the root.
  PickleTree finish();

  // Values
  void push(PickleKind kind, std::uint64_t value = 0);
  /// The next `size` bytes of the text.
  void push_bytes(PickleKind kind, std::uint64_t size);
  void push_global(const std::string& module, const std::string& name);
  /// The same with both names taken from the stack.
  void push_global();

  // The stack
  void duplicate();
  PickleId pop();
  /// Takes a value, or the mark when that is on top.
  void pop_value();
  std::vector<PickleId> pop_last(std::size_t count);
  void push_mark();
  /// Takes the values above the last mark, and the mark.
  std::vector<PickleId> pop_to_mark();

  // The memo
  void remember(std::size_t index);
  /// Under the next free index.
  void remember() { remember(num_memoized_); }
  void recall(std::size_t index);

  // Containers
  void push_container(PickleKind kind, std::vector<PickleId> items);
  /// Adds to the container, or the object that acts as one, on top of the stack.
  void append(PickleKind kind, const std::vector<PickleId>& values);

  // Objects: what would have been calls, `callable(*args)` and `callable(*args, **keywords)`
  void make_object();
  void make_object_with_keywords();
  /// Of the object on top of the stack.
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
  std::vector<std::size_t> marks_;  // the sizes of the stack when they were set
  std::vector<PickleId> memo_;
  std::size_t num_memoized_ = 0;
  std::size_t num_items_ = 0;
  std::unordered_map<std::string, std::uint32_t> name_indices_;
};

}  // namespace moh
