#include "train/tokenizers/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/protobuf.h"

namespace moh {

namespace {

constexpr std::size_t kMaxPieces = std::size_t{1} << 24;
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 10;

/// Numbers of the fields in sentencepiece_model.proto.
enum ModelField : std::uint32_t { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };
enum PieceField : std::uint32_t { kText = 1, kScore = 2, kType = 3 };
enum TrainerField : std::uint32_t {
  kModelType = 3,
  kSuffix = 24,
  kByteFallback = 35,
  kUnknownText = 44,
  kBeginName = 46,
  kEndName = 47
};
enum NormalizerField : std::uint32_t { kRules = 2, kAddsPrefix = 3, kRemovesSpaces = 4, kEscapesSpaces = 5 };

using Field = ProtobufReader::Field;

class Parser {
 public:
  explicit Parser(const std::string& where) : where_(where) { model_.unknown_text = " \u2047 "; }

  SentencePieceModel operator()(std::string_view bytes) {
    ProtobufReader reader(bytes, where_);
    while (const std::optional<Field> field = reader.next()) {
      if (field->id == kPieces) add_piece(message(*field, "pieces"));
      if (field->id == kTrainer) read_trainer(message(*field, "trainer_spec"));
      if (field->id == kNormalizer) read_normalizer(message(*field, "normalizer_spec"));
      if (field->id == kDenormalizer) check_denormalizer(message(*field, "denormalizer_spec"));
    }
    finish();
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found) const {
    throw DataError(error_message(where_, what, expected, found));
  }
  std::string_view message(const Field& field, std::string_view what) const {
    if (!field.is_bytes) fail(what, "a message", "a number");
    return field.bytes;
  }

  void add_piece(std::string_view bytes) {
    SentencePieceModel::Piece piece;
    ProtobufReader reader(bytes, where_);
    std::uint64_t type = static_cast<std::uint64_t>(PieceType::kNormal);
    while (const std::optional<Field> field = reader.next()) {
      if (field->id == kText) piece.text = message(*field, "piece");
      if (field->id == kScore) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->number));
      if (field->id == kType) type = field->number;
    }
    const std::string what = "piece " + std::to_string(model_.pieces.size());
    if (piece.text.empty() || piece.text.size() > kMaxPieceBytes || !is_utf8(piece.text))
      fail(what, "a text of 1 ... " + std::to_string(kMaxPieceBytes) + " bytes", printable(piece.text, 40));
    if (!std::isfinite(piece.score)) fail(what, "a finite score", "another one");
    if (type < 1 || type > 6) fail(what, "a type of 1 ... 6", std::to_string(type));
    if (model_.pieces.size() >= kMaxPieces) fail("pieces", "at most " + std::to_string(kMaxPieces), "more");
    piece.type = static_cast<PieceType>(type);
    model_.pieces.push_back(std::move(piece));
  }

  void read_trainer(std::string_view bytes) {
    ProtobufReader reader(bytes, where_);
    while (const std::optional<Field> field = reader.next()) {
      if (field->id == kModelType) model_type_ = field->number;
      if (field->id == kByteFallback) model_.byte_fallback = field->number != 0;
      if (field->id == kUnknownText) model_.unknown_text = message(*field, "unk_surface");
      if (field->id == kBeginName) begin_name_ = message(*field, "bos_piece");
      if (field->id == kEndName) end_name_ = message(*field, "eos_piece");
      if (field->id == kSuffix && field->number != 0)
        fail("trainer_spec.treat_whitespace_as_suffix", "false", "true, which moh does not read");
    }
  }

  void read_normalizer(std::string_view bytes) {
    ProtobufReader reader(bytes, where_);
    while (const std::optional<Field> field = reader.next()) {
      if (field->id == kRules) model_.rules = message(*field, "precompiled_charsmap");
      if (field->id == kAddsPrefix) model_.adds_prefix = field->number != 0;
      if (field->id == kRemovesSpaces) model_.removes_extra_spaces = field->number != 0;
      if (field->id == kEscapesSpaces) model_.escapes_spaces = field->number != 0;
    }
  }

  void check_denormalizer(std::string_view bytes) const {
    ProtobufReader reader(bytes, where_);
    while (const std::optional<Field> field = reader.next()) {
      if (field->id == kRules && !message(*field, "denormalizer_spec").empty())
        fail("denormalizer_spec", "no rules for decoding", "some, which moh does not read");
    }
  }

  void finish() {
    constexpr std::string_view kTypes[] = {"", "unigram", "bpe", "word", "char"};
    if (model_type_ != 1 && model_type_ != 2) {
      fail("trainer_spec.model_type", "unigram or bpe",
           model_type_ < std::size(kTypes) ? kTypes[model_type_] : std::to_string(model_type_));
    }
    model_.is_unigram = model_type_ == 1;
    std::unordered_set<std::string_view> texts;
    std::size_t bytes = 0, unknowns = 0;
    for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
      const SentencePieceModel::Piece& piece = model_.pieces[i];
      const auto id = static_cast<TokenId>(i);
      if (!texts.insert(piece.text).second) fail("pieces", "texts that differ", printable(piece.text, 40));
      if (piece.type == PieceType::kUnknown && unknowns++ == 0) model_.unknown = id;
      if (piece.type == PieceType::kControl && piece.text == begin_name_) model_.begin = id;
      if (piece.type == PieceType::kControl && piece.text == end_name_) model_.end = id;
      if (piece.type == PieceType::kByte) check_byte(piece.text, bytes++);
    }
    if (unknowns != 1) fail("pieces", "one unknown piece", std::to_string(unknowns));
    if (model_.byte_fallback && bytes != 256)
      fail("pieces", "256 of bytes, as of byte_fallback", std::to_string(bytes));
    if (!model_.byte_fallback && bytes > 0)
      fail("pieces", "none of bytes, as byte_fallback is false", std::to_string(bytes));
  }

  void check_byte(std::string_view text, std::size_t before) const {
    const std::size_t digits = text.find_first_not_of("0123456789ABCDEF", 3);
    if (text.size() != 6 || !text.starts_with("<0x") || digits != 5 || text.back() != '>')
      fail("byte piece " + std::to_string(before), "<0x00> ... <0xFF>", printable(text, 40));
  }

  std::string where_;
  SentencePieceModel model_;
  std::uint64_t model_type_ = 1;
  std::string begin_name_ = "<s>", end_name_ = "</s>";
};

}  // namespace

bool looks_like_sentencepiece(std::string_view first_bytes) {
  return first_bytes.size() >= 3 && first_bytes[0] == '\x0a';  // field 1, a piece
}

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& where) {
  return Parser(where)(bytes);
}

}  // namespace moh
