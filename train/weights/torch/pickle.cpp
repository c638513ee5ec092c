#include "train/weights/torch/pickle.h"

#include <array>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "train/io/printable.h"
#include "train/weights/torch/hostile_names.h"
#include "train/weights/torch/little_endian.h"

namespace moh {

/// Python's pickle machine without the parts that act: a stack of values, marks in it, and a memo.
class PickleMachine {
 public:
  explicit PickleMachine(PickleText text) : tree_(std::move(text)) {}

  PickleTree run() {
    check_protocol();
    while (step(byte())) {
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      fail("one value at the end",
           std::to_string(stack_.size()) + " and " + std::to_string(marks_.size()) + " marks");
    }
    tree_.root_ = stack_.back();
    return std::move(tree_);
  }

 private:
  static constexpr PickleId kUnset = std::numeric_limits<PickleId>::max();

  // Reading

  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix = "") const {
    tree_.text_.fail(expected, found, fix);
  }

  template <class T>
  T number() {
    const std::string_view bytes = tree_.text_.take(sizeof(T));
    return little_endian<T>(std::as_bytes(std::span(bytes)), 0);
  }

  std::uint8_t byte() { return number<std::uint8_t>(); }

  /// A length that is written as a signed number.
  std::uint64_t signed_length() {
    const auto length = static_cast<std::int32_t>(number<std::uint32_t>());
    if (length < 0) fail("a length", std::to_string(length));
    return static_cast<std::uint64_t>(length);
  }

  void check_protocol() {
    constexpr std::uint8_t kProto = 0x80;
    if (tree_.text_.left() == 0 || byte() != kProto) {
      fail("a pickle of protocol 2 to 5", "other bytes", "save the file again with torch.save");
    }
    check_protocol_number();
  }

  void check_protocol_number() {
    const int protocol = byte();
    if (protocol < 2 || protocol > 5) fail("pickle protocol 2 to 5", std::to_string(protocol));
  }

  // Values

  PickleId add(PickleNode node) {
    if (tree_.nodes_.size() == kMaxPickleValues) {
      fail("at most " + std::to_string(kMaxPickleValues) + " values", "more",
           "save the model's state_dict alone, without other data");
    }
    tree_.nodes_.push_back(std::move(node));
    return static_cast<PickleId>(tree_.nodes_.size() - 1);
  }

  void push(PickleId id) {
    if (stack_.size() == kMaxPickleValues) {
      fail("at most " + std::to_string(kMaxPickleValues) + " values on the stack", "more");
    }
    stack_.push_back(id);
  }

  void push(PickleKind kind, std::uint64_t value = 0) { push(add({.kind = kind, .number = value})); }

  void push_bytes(PickleKind kind, std::uint64_t size) {
    const std::uint64_t at = tree_.text_.taken();
    tree_.text_.take(size);  // at most PickleText::kMaxBytes
    push(add({.kind = kind, .size = static_cast<std::uint32_t>(size), .number = at}));
  }

  /// An integer of any length, little-endian in two's complement.
  void push_long(std::uint64_t size) {
    if (size > sizeof(std::uint64_t)) return push_bytes(PickleKind::kBigInt, size);
    const std::string_view bytes = tree_.text_.take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    const bool negative = size > 0 && (static_cast<unsigned char>(bytes[size - 1]) & 0x80) != 0;
    if (negative && size < sizeof(value)) value |= ~std::uint64_t{0} << (8 * size);
    push(PickleKind::kInt, value);
  }

  void push_float() {
    std::array<char, 8> big;
    std::memcpy(big.data(), tree_.text_.take(big.size()).data(), big.size());
    std::uint64_t bits = 0;
    for (const char c : big) bits = bits << 8 | static_cast<unsigned char>(c);
    push(PickleKind::kFloat, bits);
  }

  /// The index of a name, each kept once.
  std::uint32_t name_index(const std::string& module, const std::string& name) {
    if (is_hostile_name(module, name)) {
      fail("the names of harmless classes", printable(module + "." + name),
           "the file was made to attack whoever loads it in Python, or somebody put code into it: do not use "
           "it");
    }
    const auto [found, is_new] =
        name_indices_.emplace(module + "." + name, static_cast<std::uint32_t>(tree_.names_.size()));
    if (is_new) tree_.names_.push_back(found->first);
    return found->second;
  }

  void push_global(const std::string& module, const std::string& name) {
    push(add({.kind = PickleKind::kGlobal, .name = name_index(module, name)}));
  }

  std::string name_part(PickleId id) const {
    if (!tree_.is(id, PickleKind::kText) || tree_.node(id).size > kMaxPickleName) {
      fail("a name of at most " + std::to_string(kMaxPickleName) + " bytes", "something else");
    }
    return std::string(tree_.bytes(id));
  }

  // The stack

  /// Values above the last mark.
  std::size_t open_values() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  void require(std::size_t count) const {
    if (open_values() < count) {
      fail(std::to_string(count) + " values on the stack for the opcode", std::to_string(open_values()),
           "the pickle is damaged");
    }
  }

  PickleId top() const {
    require(1);
    return stack_.back();
  }

  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }

  void push_mark() {
    if (marks_.size() == kMaxPickleValues) fail("fewer marks", "more");
    marks_.push_back(stack_.size());
  }

  /// Takes the values above the last mark, and the mark.
  std::vector<PickleId> pop_to_mark() {
    if (marks_.empty()) fail("a mark on the stack", "none", "the pickle is damaged");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleId> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  std::vector<PickleId> pop_last(std::size_t count) {
    require(count);
    std::vector<PickleId> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  // The memo

  void remember(std::size_t index) {
    if (index >= kMaxPickleValues)
      fail("a memo below " + std::to_string(kMaxPickleValues), std::to_string(index));
    const PickleId id = top();
    if (memo_.size() <= index) memo_.resize(index + 1, kUnset);
    if (memo_[index] == kUnset) num_memoized_ += 1;
    memo_[index] = id;
  }

  void recall(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == kUnset) {
      fail("a memo that was set", "memo " + std::to_string(index), "the pickle is damaged");
    }
    push(memo_[index]);
  }

  // Containers

  void count_items(std::size_t more) {
    num_items_ += more;
    if (num_items_ > kMaxPickleItems) {
      fail("at most " + std::to_string(kMaxPickleItems) + " items", "more",
           "save the model's state_dict alone, without other data");
    }
  }

  void push_container(PickleKind kind, std::vector<PickleId> items) {
    count_items(items.size());
    push(add({.kind = kind, .items = std::move(items)}));
  }

  /// Adds to the container, or the object that acts as one, on top of the stack.
  void append(PickleKind kind, const std::vector<PickleId>& values) {
    count_items(values.size());
    const bool pairs = kind == PickleKind::kDict;
    if (pairs && values.size() % 2 != 0) fail("a value for each key", "a key without one");
    PickleNode& to = tree_.nodes_[top()];
    const bool is_object = to.kind == PickleKind::kObject && (to.items.empty() || to.has_pairs == pairs);
    if (to.kind != kind && !is_object) fail("a container to put items into", "something else");
    to.has_pairs = pairs;
    to.items.insert(to.items.end(), values.begin(), values.end());
  }

  // Objects

  /// The name of what would have been called: of a class, of what an object returned, or of a class whose
  /// source is kept beside it: ("module", class, file, source).
  std::uint32_t callable_name(PickleId id) const {
    const PickleNode* callable = &tree_.node(id);
    if (callable->kind == PickleKind::kPersistent) {
      const PickleNode& what = tree_.node(callable->items[0]);
      if (what.kind == PickleKind::kTuple && what.items.size() > 1) callable = &tree_.node(what.items[1]);
    }
    if (callable->kind != PickleKind::kGlobal && callable->kind != PickleKind::kObject) {
      fail("a class or function", "a value");
    }
    return callable->name;
  }

  /// What would have been a call: `callable(*args)`.
  void push_object(PickleId callable, PickleId args) {
    if (!tree_.is(args, PickleKind::kTuple)) fail("a tuple of arguments", "something else");
    push(add({.kind = PickleKind::kObject, .name = callable_name(callable), .args = args}));
  }

  void make_object() {
    const PickleId args = pop(), callable = pop();
    push_object(callable, args);
  }

  void make_object_with_keywords() {
    const PickleId keywords = pop(), args = pop(), callable = pop();
    if (!tree_.is(keywords, PickleKind::kDict)) fail("a dict of arguments", "something else");
    push_object(callable, args);
    append(PickleKind::kDict, tree_.node(keywords).items);
  }

  void set_state(PickleId state) {
    PickleNode& object = tree_.nodes_[top()];
    if (object.kind != PickleKind::kObject) fail("an object to set the state of", "something else");
    if (object.has_state) fail("a state for each object", "a second one");
    object.has_state = true;
    object.state = state;
  }

  // Opcodes

  /// Carries out an opcode; false for the last one.
  bool step(std::uint8_t opcode) {
    switch (opcode) {
      case '.':
        return false;
      case 0x80:
        check_protocol_number();
        return true;
      case 0x95: {
        const auto frame = number<std::uint64_t>();
        if (frame > tree_.text_.left()) fail("a frame within the pickle", std::to_string(frame) + " bytes");
        return true;
      }
      case '(':
        push_mark();
        return true;
      case '0':
        pop_value();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        push(top());
        return true;
      default:
        if (!push_scalar(opcode) && !push_text(opcode) && !use_memo(opcode) && !build_container(opcode) &&
            !build_object(opcode)) {
          refuse(opcode);
        }
        return true;
    }
  }

  /// POP takes a mark when that is on top.
  void pop_value() {
    if (open_values() == 0 && !marks_.empty()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  bool push_scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 'N':
        push(PickleKind::kNone);
        return true;
      case 0x88:
      case 0x89:
        push(PickleKind::kBool, opcode == 0x88 ? 1 : 0);
        return true;
      case 'K':
        push(PickleKind::kInt, byte());
        return true;
      case 'M':
        push(PickleKind::kInt, number<std::uint16_t>());
        return true;
      case 'J':
        push(PickleKind::kInt,
             static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(number<std::uint32_t>())}));
        return true;
      case 0x8a:
        push_long(byte());
        return true;
      case 0x8b:
        push_long(signed_length());
        return true;
      case 'G':
        push_float();
        return true;
      default:
        return false;
    }
  }

  bool push_text(std::uint8_t opcode) {
    switch (opcode) {
      case 0x8c:  // str
      case 'U':   // str of Python 2
        push_bytes(PickleKind::kText, byte());
        return true;
      case 'X':
        push_bytes(PickleKind::kText, number<std::uint32_t>());
        return true;
      case 0x8d:
        push_bytes(PickleKind::kText, number<std::uint64_t>());
        return true;
      case 'T':
        push_bytes(PickleKind::kText, signed_length());
        return true;
      case 'C':
        push_bytes(PickleKind::kBytes, byte());
        return true;
      case 'B':
        push_bytes(PickleKind::kBytes, number<std::uint32_t>());
        return true;
      case 0x8e:
      case 0x96:  // bytearray
        push_bytes(PickleKind::kBytes, number<std::uint64_t>());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        remember(byte());
        return true;
      case 'r':
        remember(number<std::uint32_t>());
        return true;
      case 0x94:
        remember(num_memoized_);
        return true;
      case 'h':
        recall(byte());
        return true;
      case 'j':
        recall(number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  bool build_container(std::uint8_t opcode) {
    switch (opcode) {
      case ')':
        push_container(PickleKind::kTuple, {});
        return true;
      case ']':
        push_container(PickleKind::kList, {});
        return true;
      case '}':
        push_container(PickleKind::kDict, {});
        return true;
      case 0x8f:
        push_container(PickleKind::kSet, {});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_container(PickleKind::kTuple, pop_last(opcode - 0x84U));
        return true;
      case 't':
        push_container(PickleKind::kTuple, pop_to_mark());
        return true;
      case 0x91:
        push_container(PickleKind::kSet, pop_to_mark());
        return true;
      default:
        return fill_container(opcode);
    }
  }

  bool fill_container(std::uint8_t opcode) {
    switch (opcode) {
      case 'a':
        append(PickleKind::kList, pop_last(1));
        return true;
      case 'e':
        append(PickleKind::kList, pop_to_mark());
        return true;
      case 's':
        append(PickleKind::kDict, pop_last(2));
        return true;
      case 'u':
        append(PickleKind::kDict, pop_to_mark());
        return true;
      case 0x90:
        append(PickleKind::kSet, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool build_object(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module(tree_.text_.take_line(kMaxPickleName));
        push_global(module, std::string(tree_.text_.take_line(kMaxPickleName)));
        return true;
      }
      case 0x93: {
        const PickleId name = pop(), module = pop();
        push_global(name_part(module), name_part(name));
        return true;
      }
      case 'R':
      case 0x81:
        make_object();
        return true;
      case 0x92:
        make_object_with_keywords();
        return true;
      case 'b':
        set_state(pop());
        return true;
      case 'Q':
        push_container(PickleKind::kPersistent, pop_last(1));
        return true;
      default:
        return false;
    }
  }

  [[noreturn]] void refuse(std::uint8_t opcode) const {
    constexpr std::string_view kOld = "FILOSVPdgilop";  // of protocols 0 and 1
    const std::string name = printable(std::string(1, static_cast<char>(opcode)));
    if (kOld.find(static_cast<char>(opcode)) != std::string_view::npos) {
      fail("opcodes of protocol 2 to 5", "the opcode " + name + " of protocol 0 or 1",
           "save the file again with torch.save");
    }
    if (opcode >= 0x82 && opcode <= 0x84) fail("classes by name", "a number of the extension registry");
    if (opcode == 0x97 || opcode == 0x98) fail("all data in the file", "a buffer kept elsewhere");
    fail("an opcode", "the byte " + name, "this is not a pickle, or it is damaged");
  }

  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // the sizes of the stack when they were set
  std::vector<PickleId> memo_;
  std::size_t num_memoized_ = 0;
  std::size_t num_items_ = 0;
  std::unordered_map<std::string, std::uint32_t> name_indices_;
};

PickleTree read_pickle(PickleText text) {
  return PickleMachine(std::move(text)).run();
}

}  // namespace moh
