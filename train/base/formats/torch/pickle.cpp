#include "train/base/formats/torch/pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "train/base/formats/torch/pickle_machine.h"
#include "train/base/io/printable.h"

namespace moh {

PickleText::PickleText(const InputFile& file, std::uint64_t begin, std::uint64_t end, std::string what)
    : file_(&file), begin_(begin), end_(end), what_(std::move(what)) {}

std::string_view PickleText::take(std::uint64_t size) {
  if (size > left()) {
    fail(std::to_string(size) + " more bytes", std::to_string(left()), "the pickle is truncated or damaged");
  }
  fill(size);
  const std::string_view taken = at(position_, size);
  position_ += size;
  return taken;
}

std::string_view PickleText::take_line(std::uint64_t most) {
  const std::uint64_t begin = position_;
  while (take(1) != "\n") {
    if (position_ - begin > most)
      fail("a name of at most " + std::to_string(most) + " bytes", "a longer one");
  }
  return at(begin, position_ - begin - 1);
}

std::uint64_t PickleText::take_number(std::size_t size) {
  std::uint64_t number = 0;
  std::memcpy(&number, take(size).data(), size);  // little-endian, as all hosts
  return number;
}

std::int64_t PickleText::take_signed(std::size_t size) {
  if (size == 0) return 0;
  const std::size_t unused_bits = 8 * (sizeof(std::int64_t) - size);
  return static_cast<std::int64_t>(take_number(size) << unused_bits) >> unused_bits;
}

/// Reads until `size` bytes from position_ on are in memory.
void PickleText::fill(std::uint64_t size) {
  const std::uint64_t needed = position_ + size, have = bytes_.size();
  if (needed <= have) return;
  if (needed > kMaxBytes) {
    fail("a pickle of at most " + std::to_string(kMaxBytes) + " bytes", "a longer one",
         "save the model's state_dict alone, without other data");
  }
  constexpr std::uint64_t kBlock = 1 << 16;
  const std::uint64_t size_now = std::min(std::max({needed, 2 * have, kBlock}), end_ - begin_);
  bytes_.resize(size_now);
  file_->read(begin_ + have, std::as_writable_bytes(std::span(bytes_).subspan(have)), what_);
}

void PickleText::fail(std::string_view expected, std::string_view found, std::string_view fix) const {
  file_->fail(what_ + ", byte " + std::to_string(position_), expected, found, fix);
}

namespace {

using enum PickleKind;

void check_protocol(PickleText& text) {
  const std::uint64_t protocol = text.take_number(1);
  if (protocol < 2 || protocol > 5) text.fail("pickle protocol 2 to 5", std::to_string(protocol));
}

void check_frame(PickleText& text) {
  const std::uint64_t frame = text.take_number(8);
  if (frame > text.left()) text.fail("a frame within the pickle", std::to_string(frame) + " bytes");
}

/// Takes a length that is stored as a signed number.
std::uint64_t take_length(PickleText& text) {
  const std::int64_t length = text.take_signed(4);
  if (length < 0) text.fail("a length", std::to_string(length));
  return static_cast<std::uint64_t>(length);
}

/// Pushes an integer of `size` bytes, little-endian in two's complement.
void push_long(PickleMachine& m, PickleText& text, std::uint64_t size) {
  if (size > sizeof(std::int64_t)) return m.push_bytes(kBigInt, size);
  m.push(kInt, static_cast<std::uint64_t>(text.take_signed(size)));
}

void push_global(PickleMachine& m, PickleText& text) {
  const std::string module(text.take_line(kMaxPickleName));
  m.push_global(module, std::string(text.take_line(kMaxPickleName)));
}

/// Reads the operands of an opcode and runs it on the machine.
using RunOpcode = void (*)(PickleMachine& m, PickleText& text);

struct Opcode {
  unsigned char code;
  RunOpcode run;
};

// The opcodes of protocols 2 to 5 except STOP, with the names of Python's pickletools.py. BINSTRINGs are
// Python 2's str.
constexpr Opcode kOpcodes[] = {
    {0x80, [](auto&, auto& text) { check_protocol(text); }},  // PROTO
    {0x95, [](auto&, auto& text) { check_frame(text); }},     // FRAME

    {'(', [](auto& m, auto&) { m.push_mark(); }},    // MARK
    {'0', [](auto& m, auto&) { m.pop_value(); }},    // POP
    {'1', [](auto& m, auto&) { m.pop_to_mark(); }},  // POP_MARK
    {'2', [](auto& m, auto&) { m.duplicate(); }},    // DUP

    {'q', [](auto& m, auto& text) { m.remember(text.take_number(1)); }},  // BINPUT
    {'r', [](auto& m, auto& text) { m.remember(text.take_number(4)); }},  // LONG_BINPUT
    {0x94, [](auto& m, auto&) { m.remember(); }},                         // MEMOIZE
    {'h', [](auto& m, auto& text) { m.recall(text.take_number(1)); }},    // BINGET
    {'j', [](auto& m, auto& text) { m.recall(text.take_number(4)); }},    // LONG_BINGET

    {'N', [](auto& m, auto&) { m.push(kNone); }},                                                // NONE
    {0x88, [](auto& m, auto&) { m.push(kBool, 1); }},                                            // NEWTRUE
    {0x89, [](auto& m, auto&) { m.push(kBool, 0); }},                                            // NEWFALSE
    {'K', [](auto& m, auto& text) { m.push(kInt, text.take_number(1)); }},                       // BININT1
    {'M', [](auto& m, auto& text) { m.push(kInt, text.take_number(2)); }},                       // BININT2
    {'J', [](auto& m, auto& text) { push_long(m, text, 4); }},                                   // BININT
    {0x8a, [](auto& m, auto& text) { push_long(m, text, text.take_number(1)); }},                // LONG1
    {0x8b, [](auto& m, auto& text) { push_long(m, text, take_length(text)); }},                  // LONG4
    {'G', [](auto& m, auto& text) { m.push(kFloat, __builtin_bswap64(text.take_number(8))); }},  // BINFLOAT

    {0x8c, [](auto& m, auto& text) { m.push_bytes(kText, text.take_number(1)); }},   // SHORT_BINUNICODE
    {'X', [](auto& m, auto& text) { m.push_bytes(kText, text.take_number(4)); }},    // BINUNICODE
    {0x8d, [](auto& m, auto& text) { m.push_bytes(kText, text.take_number(8)); }},   // BINUNICODE8
    {'U', [](auto& m, auto& text) { m.push_bytes(kText, text.take_number(1)); }},    // SHORT_BINSTRING
    {'T', [](auto& m, auto& text) { m.push_bytes(kText, take_length(text)); }},      // BINSTRING
    {'C', [](auto& m, auto& text) { m.push_bytes(kBytes, text.take_number(1)); }},   // SHORT_BINBYTES
    {'B', [](auto& m, auto& text) { m.push_bytes(kBytes, text.take_number(4)); }},   // BINBYTES
    {0x8e, [](auto& m, auto& text) { m.push_bytes(kBytes, text.take_number(8)); }},  // BINBYTES8
    {0x96, [](auto& m, auto& text) { m.push_bytes(kBytes, text.take_number(8)); }},  // BYTEARRAY8

    {')', [](auto& m, auto&) { m.push_container(kTuple, {}); }},               // EMPTY_TUPLE
    {0x85, [](auto& m, auto&) { m.push_container(kTuple, m.pop_last(1)); }},   // TUPLE1
    {0x86, [](auto& m, auto&) { m.push_container(kTuple, m.pop_last(2)); }},   // TUPLE2
    {0x87, [](auto& m, auto&) { m.push_container(kTuple, m.pop_last(3)); }},   // TUPLE3
    {'t', [](auto& m, auto&) { m.push_container(kTuple, m.pop_to_mark()); }},  // TUPLE
    {']', [](auto& m, auto&) { m.push_container(kList, {}); }},                // EMPTY_LIST
    {'a', [](auto& m, auto&) { m.append(kList, m.pop_last(1)); }},             // APPEND
    {'e', [](auto& m, auto&) { m.append(kList, m.pop_to_mark()); }},           // APPENDS
    {'}', [](auto& m, auto&) { m.push_container(kDict, {}); }},                // EMPTY_DICT
    {'s', [](auto& m, auto&) { m.append(kDict, m.pop_last(2)); }},             // SETITEM
    {'u', [](auto& m, auto&) { m.append(kDict, m.pop_to_mark()); }},           // SETITEMS
    {0x8f, [](auto& m, auto&) { m.push_container(kSet, {}); }},                // EMPTY_SET
    {0x90, [](auto& m, auto&) { m.append(kSet, m.pop_to_mark()); }},           // ADDITEMS
    {0x91, [](auto& m, auto&) { m.push_container(kSet, m.pop_to_mark()); }},   // FROZENSET

    {'c', [](auto& m, auto& text) { push_global(m, text); }},                     // GLOBAL
    {0x93, [](auto& m, auto&) { m.push_global(); }},                              // STACK_GLOBAL
    {'R', [](auto& m, auto&) { m.make_object(); }},                               // REDUCE
    {0x81, [](auto& m, auto&) { m.make_object(); }},                              // NEWOBJ
    {0x92, [](auto& m, auto&) { m.make_object_with_keywords(); }},                // NEWOBJ_EX
    {'b', [](auto& m, auto&) { m.set_state(m.pop()); }},                          // BUILD
    {'Q', [](auto& m, auto&) { m.push_container(kPersistent, m.pop_last(1)); }},  // BINPERSID
};

constexpr auto kRunByCode = [] {
  std::array<RunOpcode, 256> run{};
  for (const Opcode& opcode : kOpcodes) run[opcode.code] = opcode.run;
  return run;
}();

[[noreturn]] void refuse(const PickleText& text, unsigned char code) {
  constexpr std::string_view kOld = "FILOSVPdgilop";  // of protocols 0 and 1
  const std::string name = printable(std::string(1, static_cast<char>(code)));
  if (kOld.find(static_cast<char>(code)) != std::string_view::npos) {
    text.fail("opcodes of protocol 2 to 5", "the opcode " + name + " of protocol 0 or 1",
              "save the file again with torch.save");
  }
  if (code >= 0x82 && code <= 0x84) text.fail("classes by name", "a number of the extension registry");
  if (code == 0x97 || code == 0x98) text.fail("all data in the file", "a buffer kept elsewhere");
  text.fail("an opcode", "the byte " + name, "this is not a pickle, or it is damaged");
}

}  // namespace

PickleTree read_pickle(PickleText whole) {
  constexpr unsigned char kProto = 0x80, kStop = '.';
  PickleMachine machine(std::move(whole));
  PickleText& text = machine.text();
  if (text.left() == 0 || text.take_number(1) != kProto) {
    text.fail("a pickle of protocol 2 to 5", "other bytes", "save the file again with torch.save");
  }
  check_protocol(text);
  while (true) {
    const auto code = static_cast<unsigned char>(text.take_number(1));
    if (code == kStop) return machine.finish();
    if (kRunByCode[code] == nullptr) refuse(text, code);
    kRunByCode[code](machine, text);
  }
}

}  // namespace moh
