#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_value.h"

namespace moh {

struct JinjaExpression;
struct JinjaStatement;
using JinjaExpressionPointer = std::unique_ptr<const JinjaExpression>;
using JinjaBody = std::vector<std::unique_ptr<const JinjaStatement>>;

/// An expression. The comments say what `parts` and `name` are.
struct JinjaExpression {
  enum class Kind {
    kConstant,
    kName,
    kList,         ///< items
    kObject,       ///< key, value, key, value ...
    kAttribute,    ///< the owner; name
    kItem,         ///< the owner, the index
    kSlice,        ///< the owner, begin, end, step; null where one is left out
    kCall,         ///< what is called, the arguments, of which the last have the names of `names`
    kFilter,       ///< the value, the arguments likewise; name; `apply`
    kTest,         ///< likewise
    kNot,          ///< one
    kNegative,     ///< one
    kPositive,     ///< one
    kAnd,          ///< two
    kOr,           ///< two
    kArithmetic,   ///< two; name is the operator
    kConcatenate,  ///< two or more
    kCompare,      ///< two or more; names are the operators between them
    kConditional   ///< condition, value, value otherwise; the last may be null
  };
  Kind kind = Kind::kConstant;
  int line = 1;
  int depth = 1;
  std::string name;
  JinjaValue constant;
  std::vector<JinjaExpressionPointer> parts;
  std::vector<std::string> names;
  JinjaOperation apply = nullptr;
};

/// A statement.
struct JinjaStatement {
  enum class Kind {
    kText,      ///< constant
    kOutput,    ///< an expression
    kIf,        ///< conditions; their bodies, and one more for else
    kFor,       ///< the items, the condition or null; names; the body, and one for else
    kSet,       ///< the value; names, or one name and an attribute of it
    kSetBlock,  ///< names[0] is the text of the body
    kMacro,     ///< defaults of the last of the names; name; the body
    kScope,     ///< a body
    kBreak,
    kContinue
  };
  Kind kind = Kind::kText;
  int line = 1;
  std::string name, attribute;
  JinjaValue constant;
  std::vector<JinjaExpressionPointer> expressions;
  std::vector<std::string> names;
  std::vector<JinjaBody> bodies;
};

}  // namespace moh
