#include "train/base/formats/torch/pickle_machine.h"

#include <algorithm>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Python's modules of the operating system, which torch.load(weights_only=True) refuses by name, too.
constexpr std::string_view kNotOfWeights[] = {"sys", "os", "posix", "nt"};

}  // namespace

void PickleMachine::fail(std::string_view expected, std::string_view found, std::string_view fix) const {
  tree_.text_.fail(expected, found, fix);
}

PickleTree PickleMachine::finish() {
  if (stack_.size() != 1 || !marks_.empty()) {
    fail("one value at the end",
         std::to_string(stack_.size()) + " and " + std::to_string(marks_.size()) + " marks");
  }
  tree_.root_ = stack_.back();
  return std::move(tree_);
}

PickleId PickleMachine::add(PickleNode node) {
  if (tree_.nodes_.size() == kMaxPickleValues) {
    fail("at most " + std::to_string(kMaxPickleValues) + " values", "more",
         "save the model's state_dict alone, without other data");
  }
  tree_.nodes_.push_back(std::move(node));
  return static_cast<PickleId>(tree_.nodes_.size() - 1);
}

void PickleMachine::push(PickleId id) {
  if (stack_.size() == kMaxPickleValues) {
    fail("at most " + std::to_string(kMaxPickleValues) + " values on the stack", "more");
  }
  stack_.push_back(id);
}

void PickleMachine::push(PickleKind kind, std::uint64_t value) {
  push(add({.kind = kind, .number = value}));
}

void PickleMachine::push_bytes(PickleKind kind, std::uint64_t size) {
  const std::uint64_t at = tree_.text_.taken();
  tree_.text_.take(size);  // at most PickleText::kMaxBytes
  push(add({.kind = kind, .size = static_cast<std::uint32_t>(size), .number = at}));
}

void PickleMachine::push_global(const std::string& module, const std::string& name) {
  const auto [index, is_new] =
      name_indices_.emplace(module + "." + name, static_cast<std::uint32_t>(tree_.names_.size()));
  if (std::ranges::find(kNotOfWeights, module) != std::end(kNotOfWeights)) {
    fail("the names of harmless classes", printable(index->first),
         "the file was made to attack whoever loads it in Python, or somebody put code into it: do not use "
         "it");
  }
  if (is_new) tree_.names_.push_back(index->first);
  push(add({.kind = PickleKind::kGlobal, .name = index->second}));
}

void PickleMachine::push_global() {
  const auto text_of = [&](PickleId id) {
    if (!tree_.is(id, PickleKind::kText) || tree_.node(id).size > kMaxPickleName) {
      fail("a name of at most " + std::to_string(kMaxPickleName) + " bytes", "something else");
    }
    return std::string(tree_.bytes(id));
  };
  const PickleId name = pop(), module = pop();
  push_global(text_of(module), text_of(name));
}

/// Number of values above the last mark.
std::size_t PickleMachine::open_values() const {
  return stack_.size() - (marks_.empty() ? 0 : marks_.back());
}

void PickleMachine::require(std::size_t count) const {
  if (open_values() < count) {
    fail(std::to_string(count) + " values on the stack for the opcode", std::to_string(open_values()),
         "the pickle is damaged");
  }
}

PickleId PickleMachine::top() const {
  require(1);
  return stack_.back();
}

PickleId PickleMachine::pop() {
  const PickleId id = top();
  stack_.pop_back();
  return id;
}

void PickleMachine::push_mark() {
  if (marks_.size() == kMaxPickleValues) fail("fewer marks", "more");
  marks_.push_back(stack_.size());
}

std::vector<PickleId> PickleMachine::pop_to_mark() {
  if (marks_.empty()) fail("a mark on the stack", "none", "the pickle is damaged");
  std::vector<PickleId> values = pop_last(open_values());
  marks_.pop_back();
  return values;
}

std::vector<PickleId> PickleMachine::pop_last(std::size_t count) {
  require(count);
  std::vector<PickleId> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return values;
}

void PickleMachine::pop_value() {
  if (open_values() == 0 && !marks_.empty()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

void PickleMachine::duplicate() {
  push(top());
}

void PickleMachine::remember(std::size_t index) {
  if (index >= kMaxPickleValues)
    fail("a memo below " + std::to_string(kMaxPickleValues), std::to_string(index));
  const PickleId id = top();
  if (memo_.size() <= index) memo_.resize(index + 1, kUnset);
  if (memo_[index] == kUnset) num_memoized_ += 1;
  memo_[index] = id;
}

void PickleMachine::recall(std::size_t index) {
  if (index >= memo_.size() || memo_[index] == kUnset) {
    fail("a memo that was set", "memo " + std::to_string(index), "the pickle is damaged");
  }
  push(memo_[index]);
}

void PickleMachine::count_items(std::size_t more) {
  num_items_ += more;
  if (num_items_ > kMaxPickleItems) {
    fail("at most " + std::to_string(kMaxPickleItems) + " items", "more",
         "save the model's state_dict alone, without other data");
  }
}

void PickleMachine::push_container(PickleKind kind, std::vector<PickleId> items) {
  count_items(items.size());
  push(add({.kind = kind, .items = std::move(items)}));
}

void PickleMachine::append(PickleKind kind, const std::vector<PickleId>& values) {
  count_items(values.size());
  const bool pairs = kind == PickleKind::kDict;
  if (pairs && values.size() % 2 != 0) fail("a value for each key", "a key without one");
  PickleNode& to = tree_.nodes_[top()];
  const bool is_object = to.kind == PickleKind::kObject && (to.items.empty() || to.has_pairs == pairs);
  if (to.kind != kind && !is_object) fail("a container to put items into", "something else");
  to.has_pairs = pairs;
  to.items.insert(to.items.end(), values.begin(), values.end());
}

/// The result of a call `callable(*args)` that is not made. `callable` is a class or function, an object, or
/// a class stored with its source: ("module", class, file, source).
void PickleMachine::push_object(PickleId callable, PickleId args) {
  if (!tree_.is(args, PickleKind::kTuple)) fail("a tuple of arguments", "something else");
  if (tree_.is(callable, PickleKind::kPersistent)) {
    const PickleNode& what = tree_.node(tree_.node(callable).items[0]);
    if (what.kind == PickleKind::kTuple && what.items.size() > 1) callable = what.items[1];
  }
  const PickleKind kind = tree_.kind(callable);
  if (kind != PickleKind::kGlobal && kind != PickleKind::kObject) fail("a class or function", "a value");
  push(add({.kind = PickleKind::kObject, .name = tree_.node(callable).name, .args = args}));
}

void PickleMachine::make_object() {
  const PickleId args = pop(), callable = pop();
  push_object(callable, args);
}

void PickleMachine::make_object_with_keywords() {
  const PickleId keywords = pop(), args = pop(), callable = pop();
  if (!tree_.is(keywords, PickleKind::kDict)) fail("a dict of arguments", "something else");
  push_object(callable, args);
  append(PickleKind::kDict, tree_.node(keywords).items);
}

void PickleMachine::set_state(PickleId state) {
  PickleNode& object = tree_.nodes_[top()];
  if (object.kind != PickleKind::kObject) fail("an object to set the state of", "something else");
  if (object.has_state) fail("a state for each object", "a second one");
  object.has_state = true;
  object.state = state;
}

}  // namespace moh
