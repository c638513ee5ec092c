#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace moh {

/// A result of a benchmark: named values, in order. Printed as a JSON object of all values, or as the line of
/// a table with those that have a column.
class Row {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  /// How a table shows a double: a printf format whose arguments are `digits` and the value times `scale`.
  struct Format {
    const char* printf = "%.*g";
    int digits = 3;
    double scale = 1;
  };
  static constexpr Format fixed(int digits) { return {"%.*f", digits, 1}; }
  static constexpr Format significant(int digits) { return {"%.*g", digits, 1}; }
  static constexpr Format percent(int digits) { return {"%.*f%%", digits, 100}; }

  /// The width of a column is the larger one of the title's length and |width|; a negative width aligns to
  /// the left.
  struct Column {
    std::string_view title;
    Format format = {};
    int width = 0;
  };

  /// Adds a member of the JSON object.
  void add(std::string_view name, Value value);
  /// Adds a member and a column.
  void add(std::string_view name, Value value, const Column& column);
  /// Adds a column.
  void show(const Column& column, const Value& value);

  /// One JSON object and a newline. Numbers that are not finite are null.
  std::string json() const;
  /// The titles of the columns and a newline; the same for all rows with the same columns.
  std::string table_head() const;
  /// The values of the columns and a newline.
  std::string table_line() const;

 private:
  std::vector<std::pair<std::string, Value>> members_;
  std::string head_, line_;
};

}  // namespace moh
