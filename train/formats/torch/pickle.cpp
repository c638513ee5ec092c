#include "train/formats/torch/pickle.h"

#include <array>
#include <cstring>
#include <utility>

#include "train/formats/torch/little_endian.h"
#include "train/formats/torch/pickle_machine.h"
#include "train/io/printable.h"

namespace moh {

namespace {

/// Reads opcodes with their operands, and has the machine carry them out.
class OpcodeReader {
 public:
  explicit OpcodeReader(PickleText text) : machine_(std::move(text)) {}

  PickleTree run() {
    check_protocol();
    while (step(byte())) {
    }
    return machine_.finish();
  }

 private:
  // Operands

  PickleText& text() { return machine_.text(); }

  template <class T>
  T number() {
    const std::string_view bytes = text().take(sizeof(T));
    return little_endian<T>(std::as_bytes(std::span(bytes)), 0);
  }

  std::uint8_t byte() { return number<std::uint8_t>(); }

  /// A length that is written as a signed number.
  std::uint64_t signed_length() {
    const auto length = static_cast<std::int32_t>(number<std::uint32_t>());
    if (length < 0) machine_.fail("a length", std::to_string(length));
    return static_cast<std::uint64_t>(length);
  }

  void check_protocol() {
    constexpr std::uint8_t kProto = 0x80;
    if (text().left() == 0 || byte() != kProto) {
      machine_.fail("a pickle of protocol 2 to 5", "other bytes", "save the file again with torch.save");
    }
    check_protocol_number();
  }

  void check_protocol_number() {
    const int protocol = byte();
    if (protocol < 2 || protocol > 5) machine_.fail("pickle protocol 2 to 5", std::to_string(protocol));
  }

  /// An integer of any length, little-endian in two's complement.
  void push_long(std::uint64_t size) {
    if (size > sizeof(std::uint64_t)) return machine_.push_bytes(PickleKind::kBigInt, size);
    const std::string_view bytes = text().take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    const bool negative = size > 0 && (static_cast<unsigned char>(bytes[size - 1]) & 0x80) != 0;
    if (negative && size < sizeof(value)) value |= ~std::uint64_t{0} << (8 * size);
    machine_.push(PickleKind::kInt, value);
  }

  void push_float() {
    std::array<char, 8> big;
    std::memcpy(big.data(), text().take(big.size()).data(), big.size());
    std::uint64_t bits = 0;
    for (const char c : big) bits = bits << 8 | static_cast<unsigned char>(c);
    machine_.push(PickleKind::kFloat, bits);
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
        if (frame > text().left())
          machine_.fail("a frame within the pickle", std::to_string(frame) + " bytes");
        return true;
      }
      case '(':
        machine_.push_mark();
        return true;
      case '0':
        machine_.pop_value();
        return true;
      case '1':
        machine_.pop_to_mark();
        return true;
      case '2':
        machine_.duplicate();
        return true;
      default:
        if (!push_scalar(opcode) && !push_text(opcode) && !use_memo(opcode) && !build_container(opcode) &&
            !build_object(opcode)) {
          refuse(opcode);
        }
        return true;
    }
  }

  bool push_scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 'N':
        machine_.push(PickleKind::kNone);
        return true;
      case 0x88:
      case 0x89:
        machine_.push(PickleKind::kBool, opcode == 0x88 ? 1 : 0);
        return true;
      case 'K':
        machine_.push(PickleKind::kInt, byte());
        return true;
      case 'M':
        machine_.push(PickleKind::kInt, number<std::uint16_t>());
        return true;
      case 'J':
        machine_.push(
            PickleKind::kInt,
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
        machine_.push_bytes(PickleKind::kText, byte());
        return true;
      case 'X':
        machine_.push_bytes(PickleKind::kText, number<std::uint32_t>());
        return true;
      case 0x8d:
        machine_.push_bytes(PickleKind::kText, number<std::uint64_t>());
        return true;
      case 'T':
        machine_.push_bytes(PickleKind::kText, signed_length());
        return true;
      case 'C':
        machine_.push_bytes(PickleKind::kBytes, byte());
        return true;
      case 'B':
        machine_.push_bytes(PickleKind::kBytes, number<std::uint32_t>());
        return true;
      case 0x8e:
      case 0x96:  // bytearray
        machine_.push_bytes(PickleKind::kBytes, number<std::uint64_t>());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        machine_.remember(byte());
        return true;
      case 'r':
        machine_.remember(number<std::uint32_t>());
        return true;
      case 0x94:
        machine_.remember();
        return true;
      case 'h':
        machine_.recall(byte());
        return true;
      case 'j':
        machine_.recall(number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  bool build_container(std::uint8_t opcode) {
    switch (opcode) {
      case ')':
        machine_.push_container(PickleKind::kTuple, {});
        return true;
      case ']':
        machine_.push_container(PickleKind::kList, {});
        return true;
      case '}':
        machine_.push_container(PickleKind::kDict, {});
        return true;
      case 0x8f:
        machine_.push_container(PickleKind::kSet, {});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        machine_.push_container(PickleKind::kTuple, machine_.pop_last(opcode - 0x84U));
        return true;
      case 't':
        machine_.push_container(PickleKind::kTuple, machine_.pop_to_mark());
        return true;
      case 0x91:
        machine_.push_container(PickleKind::kSet, machine_.pop_to_mark());
        return true;
      default:
        return fill_container(opcode);
    }
  }

  bool fill_container(std::uint8_t opcode) {
    switch (opcode) {
      case 'a':
        machine_.append(PickleKind::kList, machine_.pop_last(1));
        return true;
      case 'e':
        machine_.append(PickleKind::kList, machine_.pop_to_mark());
        return true;
      case 's':
        machine_.append(PickleKind::kDict, machine_.pop_last(2));
        return true;
      case 'u':
        machine_.append(PickleKind::kDict, machine_.pop_to_mark());
        return true;
      case 0x90:
        machine_.append(PickleKind::kSet, machine_.pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool build_object(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module(text().take_line(kMaxPickleName));
        machine_.push_global(module, std::string(text().take_line(kMaxPickleName)));
        return true;
      }
      case 0x93:
        machine_.push_global();
        return true;
      case 'R':
      case 0x81:
        machine_.make_object();
        return true;
      case 0x92:
        machine_.make_object_with_keywords();
        return true;
      case 'b':
        machine_.set_state(machine_.pop());
        return true;
      case 'Q':
        machine_.push_container(PickleKind::kPersistent, machine_.pop_last(1));
        return true;
      default:
        return false;
    }
  }

  [[noreturn]] void refuse(std::uint8_t opcode) const {
    constexpr std::string_view kOld = "FILOSVPdgilop";  // of protocols 0 and 1
    const std::string name = printable(std::string(1, static_cast<char>(opcode)));
    if (kOld.find(static_cast<char>(opcode)) != std::string_view::npos) {
      machine_.fail("opcodes of protocol 2 to 5", "the opcode " + name + " of protocol 0 or 1",
                    "save the file again with torch.save");
    }
    if (opcode >= 0x82 && opcode <= 0x84)
      machine_.fail("classes by name", "a number of the extension registry");
    if (opcode == 0x97 || opcode == 0x98) machine_.fail("all data in the file", "a buffer kept elsewhere");
    machine_.fail("an opcode", "the byte " + name, "this is not a pickle, or it is damaged");
  }

  PickleMachine machine_;
};

}  // namespace

PickleTree read_pickle(PickleText text) {
  return OpcodeReader(std::move(text)).run();
}

}  // namespace moh
