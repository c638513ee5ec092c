#include "train/base/jinja/jinja_parser.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_lexer.h"
#include "train/base/jinja/jinja_template.h"

namespace moh {

namespace {

using Expression = JinjaExpression;
using Statement = JinjaStatement;
using TokenKind = JinjaToken::Kind;

/// Expressions and statements within one another, and operators in a row.
constexpr int kMaxNesting = 200, kMaxExpressionDepth = 256;
constexpr std::string_view kComparisons[] = {"==", "!=", "<", ">", "<=", ">="};

class JinjaParser {
 public:
  JinjaParser(std::string_view where, std::string_view source)
      : where_(where), tokens_(jinja_tokens(where, source)) {}

  JinjaBody parse() { return parse_body({}); }

 private:
  using Pointer = JinjaExpressionPointer;

  /// Counts how deep the parser is within itself.
  class Nested {
   public:
    explicit Nested(JinjaParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting)
        parser_.fail("expected a template nested at most " + std::to_string(kMaxNesting) +
                     " deep, found more");
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    JinjaParser& parser_;
  };

  [[noreturn]] void fail(const std::string& fault) const { throw TemplateError(where_, token().line, fault); }
  [[noreturn]] void fail_expected(std::string_view expected) const {
    fail("expected " + std::string(expected) + ", found " + shown(token()));
  }

  static std::string shown(const JinjaToken& token) {
    switch (token.kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kOutputEnd:
        return "'}}'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      default:
        return "'" + printable(token.text, 40) + "'";
    }
  }

  // Tokens.

  const JinjaToken& token() const { return tokens_[at_]; }
  const JinjaToken& next_token() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool at(TokenKind kind, std::string_view text) const {
    return token().kind == kind && token().text == text;
  }
  bool at_operator(std::string_view text) const { return at(TokenKind::kOperator, text); }
  bool at_word(std::string_view text) const { return at(TokenKind::kName, text); }
  bool skip(TokenKind kind, std::string_view text) {
    if (!at(kind, text)) return false;
    ++at_;
    return true;
  }
  bool skip_operator(std::string_view text) { return skip(TokenKind::kOperator, text); }
  bool skip_word(std::string_view text) { return skip(TokenKind::kName, text); }
  void require_operator(std::string_view text) {
    if (!skip_operator(text)) fail_expected("'" + std::string(text) + "'");
  }
  std::string require_name() {
    if (token().kind != TokenKind::kName) fail_expected("a name");
    return tokens_[at_++].text;
  }
  void require_block_end() {
    if (token().kind != TokenKind::kBlockEnd) fail_expected("'%}'");
    ++at_;
  }

  // Statements.

  std::unique_ptr<Statement> statement(Statement::Kind kind) const {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = token().line;
    return made;
  }

  /// The statements up to a block that begins with one of `ends`, whose name is then the next token; up to
  /// the end of the template if there are none.
  JinjaBody parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    JinjaBody body;
    while (token().kind != TokenKind::kEnd) {
      if (token().kind == TokenKind::kText) {
        auto text = statement(Statement::Kind::kText);
        text->constant = JinjaValue::text(token().text, TextAuthor::kTemplate);
        ++at_;
        body.push_back(std::move(text));
      } else if (token().kind == TokenKind::kOutputBegin) {
        auto output = statement(Statement::Kind::kOutput);
        ++at_;
        output->expressions.push_back(parse_tuple());
        if (token().kind != TokenKind::kOutputEnd) fail_expected("'}}'");
        ++at_;
        body.push_back(std::move(output));
      } else {
        ++at_;  // {%
        if (token().kind == TokenKind::kName && std::ranges::find(ends, token().text) != ends.end())
          return body;
        body.push_back(parse_block());
      }
    }
    if (ends.size() > 0) fail_expected("{% " + std::string(*(ends.end() - 1)) + " %}");
    return body;
  }

  /// A body, and the end of its block.
  JinjaBody parse_body_to(std::string_view end) {
    require_block_end();
    JinjaBody body = parse_body({end});
    ++at_;
    require_block_end();
    return body;
  }

  std::unique_ptr<Statement> parse_block() {
    if (skip_word("if")) return parse_if();
    if (skip_word("for")) return parse_for();
    if (skip_word("set")) return parse_set();
    if (skip_word("macro")) return parse_macro();
    if (skip_word("generation")) {  // transformers marks with it what the model wrote
      auto made = statement(Statement::Kind::kScope);
      made->bodies.push_back(parse_body_to("endgeneration"));
      return made;
    }
    const bool breaks = at_word("break");
    if (!breaks && !at_word("continue"))
      fail_expected("one of the blocks if, for, set, macro, generation, break, continue");
    if (loops_ == 0) fail("expected {% " + token().text + " %} within a loop");
    auto made = statement(breaks ? Statement::Kind::kBreak : Statement::Kind::kContinue);
    ++at_;
    require_block_end();
    return made;
  }

  std::unique_ptr<Statement> parse_if() {
    auto made = statement(Statement::Kind::kIf);
    made->expressions.push_back(parse_tuple());
    while (true) {
      require_block_end();
      made->bodies.push_back(parse_body({"elif", "else", "endif"}));
      if (skip_word("elif")) {
        made->expressions.push_back(parse_tuple());
        continue;
      }
      if (skip_word("else")) {
        made->bodies.push_back(parse_body_to("endif"));
      } else {
        ++at_;
        require_block_end();
      }
      return made;
    }
  }

  std::unique_ptr<Statement> parse_for() {
    auto made = statement(Statement::Kind::kFor);
    made->names = parse_targets();
    if (!skip_word("in")) fail_expected("'in'");
    made->expressions.push_back(parse_tuple(/*with_condition=*/false));
    made->expressions.push_back(skip_word("if") ? parse_expression() : nullptr);
    if (at_word("recursive")) fail("expected a loop that is not recursive, which is not supported");
    require_block_end();
    ++loops_;
    made->bodies.push_back(parse_body({"else", "endfor"}));
    --loops_;
    if (skip_word("else")) {
      made->bodies.push_back(parse_body_to("endfor"));
    } else {
      ++at_;
      require_block_end();
    }
    return made;
  }

  std::vector<std::string> parse_targets() {
    std::vector<std::string> names;
    const bool encloses = skip_operator("(");
    do {
      names.push_back(require_name());
    } while (skip_operator(","));
    if (encloses) require_operator(")");
    return names;
  }

  std::unique_ptr<Statement> parse_set() {
    auto made = statement(Statement::Kind::kSet);
    made->names = parse_targets();
    if (made->names.size() == 1 && skip_operator(".")) made->attribute = require_name();
    if (skip_operator("=")) {
      made->expressions.push_back(parse_tuple());
      require_block_end();
      return made;
    }
    if (made->names.size() != 1 || !made->attribute.empty()) fail_expected("'='");
    made->kind = Statement::Kind::kSetBlock;
    made->bodies.push_back(parse_body_to("endset"));
    return made;
  }

  std::unique_ptr<Statement> parse_macro() {
    auto made = statement(Statement::Kind::kMacro);
    made->name = require_name();
    require_operator("(");
    while (!skip_operator(")")) {
      if (!made->names.empty()) require_operator(",");
      made->names.push_back(require_name());
      if (skip_operator("=")) {
        made->expressions.push_back(parse_expression());
      } else if (!made->expressions.empty()) {
        fail("expected a default value for each argument after the first that has one");
      }
    }
    const int loops = std::exchange(loops_, 0);
    made->bodies.push_back(parse_body_to("endmacro"));
    loops_ = loops;
    return made;
  }

  // Expressions.

  std::unique_ptr<Expression> expression(Expression::Kind kind, std::string name = {}) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = token().line;
    made->name = std::move(name);
    return made;
  }

  /// Adds a part to an expression that is being made.
  void add(Expression& whole, Pointer part) const {
    if (part != nullptr) whole.depth = std::max(whole.depth, part->depth + 1);
    if (whole.depth > kMaxExpressionDepth)
      fail("expected at most " + std::to_string(kMaxExpressionDepth) + " operators in a row, found more");
    whole.parts.push_back(std::move(part));
  }

  Pointer constant(JinjaValue value) {
    auto made = expression(Expression::Kind::kConstant);
    made->constant = std::move(value);
    ++at_;
    return made;
  }

  Pointer pair(Expression::Kind kind, Pointer left, Pointer right, std::string name = {}) const {
    auto made = expression(kind, std::move(name));
    add(*made, std::move(left));
    add(*made, std::move(right));
    return made;
  }

  /// An expression, or several with commas, which are a list.
  Pointer parse_tuple(bool with_condition = true) {
    Pointer first = with_condition ? parse_expression() : parse_or();
    if (!at_operator(",")) return first;
    auto made = expression(Expression::Kind::kList);
    add(*made, std::move(first));
    while (skip_operator(",") && !ends_tuple()) add(*made, with_condition ? parse_expression() : parse_or());
    return made;
  }
  bool ends_tuple() const {
    return token().kind == TokenKind::kBlockEnd || token().kind == TokenKind::kOutputEnd || at_operator(")");
  }

  Pointer parse_expression() {
    const Nested nested(*this);
    Pointer value = parse_or();
    while (skip_word("if")) {
      auto made = expression(Expression::Kind::kConditional);
      add(*made, parse_or());
      add(*made, std::move(value));
      add(*made, skip_word("else") ? parse_expression() : nullptr);
      value = std::move(made);
    }
    return value;
  }

  Pointer parse_or() {
    Pointer left = parse_and();
    while (skip_word("or")) left = pair(Expression::Kind::kOr, std::move(left), parse_and());
    return left;
  }

  Pointer parse_and() {
    Pointer left = parse_not();
    while (skip_word("and")) left = pair(Expression::Kind::kAnd, std::move(left), parse_not());
    return left;
  }

  Pointer one(Expression::Kind kind, Pointer part) const {
    auto made = expression(kind);
    add(*made, std::move(part));
    return made;
  }

  Pointer parse_not() {
    const Nested nested(*this);
    if (skip_word("not")) return one(Expression::Kind::kNot, parse_not());
    return parse_comparison();
  }

  /// The operator of a comparison at this place; "" if there is none.
  std::string take_comparison() {
    const bool compares =
        token().kind == TokenKind::kOperator && std::ranges::count(kComparisons, token().text) > 0;
    if (compares || at_word("in")) return tokens_[at_++].text;
    if (!at_word("not") || next_token().kind != TokenKind::kName || next_token().text != "in") return {};
    at_ += 2;
    return "not in";
  }

  Pointer parse_comparison() {
    Pointer left = parse_sum();
    std::string found = take_comparison();
    if (found.empty()) return left;
    auto made = expression(Expression::Kind::kCompare);
    add(*made, std::move(left));
    for (; !found.empty(); found = take_comparison()) {
      made->names.push_back(found);
      add(*made, parse_sum());
    }
    return made;
  }

  std::string take_operator(std::initializer_list<std::string_view> operators) {
    if (token().kind != TokenKind::kOperator || std::ranges::find(operators, token().text) == operators.end())
      return {};
    return tokens_[at_++].text;
  }

  Pointer parse_sum() {
    Pointer left = parse_concatenation();
    for (std::string found; !(found = take_operator({"+", "-"})).empty();)
      left = pair(Expression::Kind::kArithmetic, std::move(left), parse_concatenation(), found);
    return left;
  }

  Pointer parse_concatenation() {
    Pointer first = parse_product();
    if (!at_operator("~")) return first;
    auto made = expression(Expression::Kind::kConcatenate);
    add(*made, std::move(first));
    while (skip_operator("~")) add(*made, parse_product());
    return made;
  }

  Pointer parse_product() {
    Pointer left = parse_power();
    for (std::string found; !(found = take_operator({"*", "/", "//", "%"})).empty();)
      left = pair(Expression::Kind::kArithmetic, std::move(left), parse_power(), found);
    return left;
  }

  Pointer parse_power() {
    Pointer left = parse_unary();
    while (skip_operator("**"))
      left = pair(Expression::Kind::kArithmetic, std::move(left), parse_unary(), "**");
    return left;
  }

  Pointer parse_unary(bool with_filters = true) {
    const Nested nested(*this);
    Pointer value;
    if (skip_operator("-")) {
      value = one(Expression::Kind::kNegative, parse_unary(false));
    } else if (skip_operator("+")) {
      value = one(Expression::Kind::kPositive, parse_unary(false));
    } else {
      value = parse_postfix(parse_primary());
    }
    return with_filters ? parse_filters(std::move(value)) : std::move(value);
  }

  Pointer parse_primary() {
    const JinjaToken& first = token();
    switch (first.kind) {
      case TokenKind::kName:
        return parse_name();
      case TokenKind::kString:
        return parse_string();
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return constant(number_of(first));
      default:
        break;
    }
    if (skip_operator("(")) {
      if (skip_operator(")")) return expression(Expression::Kind::kList);
      Pointer inner = parse_tuple();
      require_operator(")");
      return inner;
    }
    if (skip_operator("[")) return parse_list();
    if (skip_operator("{")) return parse_object();
    fail_expected("an expression");
  }

  Pointer parse_name() {
    if (at_word("true") || at_word("True")) return constant(JinjaValue::boolean(true));
    if (at_word("false") || at_word("False")) return constant(JinjaValue::boolean(false));
    if (at_word("none") || at_word("None")) return constant(JinjaValue::none());
    for (const char* const word : {"if", "else", "elif", "in", "is", "and", "or", "not"}) {
      if (at_word(word)) fail_expected("an expression");
    }
    auto made = expression(Expression::Kind::kName);
    made->name = require_name();
    return made;
  }

  /// Texts side by side are one.
  Pointer parse_string() {
    std::string text;
    while (next_token().kind == TokenKind::kString) text += tokens_[at_++].text;
    text += token().text;
    return constant(JinjaValue::text(text, TextAuthor::kTemplate));
  }

  JinjaValue number_of(const JinjaToken& token) const {
    const char* const end = token.text.data() + token.text.size();
    std::int64_t whole = 0;
    double real = 0;
    const bool is_whole = token.kind == TokenKind::kInteger;
    const auto [stop, error] = is_whole ? std::from_chars(token.text.data(), end, whole)
                                        : std::from_chars(token.text.data(), end, real);
    if (error != std::errc() || stop != end) fail_expected("a number that fits 64 bits");
    return is_whole ? JinjaValue::integer(whole) : JinjaValue::number(real);
  }

  Pointer parse_list() {
    auto made = expression(Expression::Kind::kList);
    while (!skip_operator("]")) {
      if (!made->parts.empty()) {
        require_operator(",");
        if (skip_operator("]")) break;
      }
      add(*made, parse_expression());
    }
    return made;
  }

  Pointer parse_object() {
    auto made = expression(Expression::Kind::kObject);
    while (!skip_operator("}")) {
      if (!made->parts.empty()) {
        require_operator(",");
        if (skip_operator("}")) break;
      }
      add(*made, parse_expression());
      require_operator(":");
      add(*made, parse_expression());
    }
    return made;
  }

  Pointer parse_postfix(Pointer value) {
    while (true) {
      if (skip_operator(".")) {
        auto made = expression(Expression::Kind::kAttribute);
        if (token().kind == TokenKind::kInteger) {
          made->kind = Expression::Kind::kItem;
          add(*made, std::move(value));
          add(*made, constant(number_of(token())));
        } else {
          made->name = require_name();
          add(*made, std::move(value));
        }
        value = std::move(made);
      } else if (skip_operator("[")) {
        value = parse_subscript(std::move(value));
      } else if (at_operator("(")) {
        auto made = expression(Expression::Kind::kCall);
        add(*made, std::move(value));
        parse_arguments(*made);
        value = std::move(made);
      } else {
        return value;
      }
    }
  }

  Pointer parse_subscript(Pointer owner) {
    auto made = expression(Expression::Kind::kItem);
    add(*made, std::move(owner));
    add(*made, at_operator(":") ? nullptr : parse_expression());
    while (skip_operator(":") && made->parts.size() < 4) {
      made->kind = Expression::Kind::kSlice;
      add(*made, at_operator(":") || at_operator("]") ? nullptr : parse_expression());
    }
    require_operator("]");
    if (made->kind == Expression::Kind::kSlice) made->parts.resize(4);
    return made;
  }

  void parse_arguments(Expression& call) {
    require_operator("(");
    for (bool first = true; !skip_operator(")"); first = false) {
      if (!first) {
        require_operator(",");
        if (skip_operator(")")) return;
      }
      const bool is_named = token().kind == TokenKind::kName && next_token().kind == TokenKind::kOperator &&
                            next_token().text == "=";
      if (!is_named && !call.names.empty()) fail_expected("an argument with a name");
      if (is_named) {
        call.names.push_back(require_name());
        ++at_;
      }
      add(call, parse_expression());
    }
  }

  Pointer parse_filters(Pointer value) {
    while (true) {
      if (skip_operator("|")) {
        value = parse_operation(Expression::Kind::kFilter, std::move(value), find_jinja_filter, "filter");
        continue;
      }
      if (skip_word("is")) {
        const bool negates = skip_word("not");
        value = parse_operation(Expression::Kind::kTest, std::move(value), find_jinja_test, "test");
        if (negates) value = one(Expression::Kind::kNot, std::move(value));
        continue;
      }
      // A call of what a filter returned is nothing that templates do.
      return value;
    }
  }

  Pointer parse_operation(Expression::Kind kind, Pointer value, JinjaOperation (*find)(std::string_view),
                          const char* what) {
    auto made = expression(kind);
    add(*made, std::move(value));
    made->apply = find(token().text);
    if (token().kind != TokenKind::kName || made->apply == nullptr)
      fail_expected(std::string("a known ") + what);
    made->name = require_name();
    if (at_operator("(")) {
      parse_arguments(*made);
    } else if (kind == Expression::Kind::kTest && begins_argument()) {
      add(*made, parse_postfix(parse_primary()));
    }
    return made;
  }

  /// Whether the argument of a test follows, without parentheses.
  bool begins_argument() const {
    if (token().kind == TokenKind::kName)
      return !at_word("else") && !at_word("or") && !at_word("and") && !at_word("is") && !at_word("if") &&
             !at_word("in") && !at_word("not");
    return token().kind == TokenKind::kString || token().kind == TokenKind::kInteger ||
           token().kind == TokenKind::kFloat || at_operator("[") || at_operator("{");
  }

  const std::string_view where_;
  const std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

JinjaBody parse_jinja(std::string_view where, std::string_view source) {
  return JinjaParser(where, source).parse();
}

}  // namespace moh
