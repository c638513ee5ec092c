#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace moh {

/// A line of a benchmark's results: values under names, in order. All of them make an object of JSON; those
/// that have a column make a line of a table.
class Row {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  /// How a table shows a double: printf's format for a number of digits and the value times `scale`.
  struct Format {
    const char* printf = "%.*g";
    int digits = 3;
    double scale = 1;
  };
  static constexpr Format fixed(int digits) { return {"%.*f", digits, 1}; }
  static constexpr Format significant(int digits) { return {"%.*g", digits, 1}; }
  static constexpr Format percent(int digits) { return {"%.*f%%", digits, 100}; }

  /// As wide as its title, or as |width| where that is more; a negative width aligns to the left.
  struct Column {
    std::string_view title;
    Format format = {};
    int width = 0;
  };

  /// A member of the JSON object.
  void add(std::string_view name, Value value);
  /// The same with a column.
  void add(std::string_view name, Value value, const Column& column);
  /// A column alone.
  void show(const Column& column, const Value& value);

  /// One JSON object and a newline. Numbers that are not finite are null.
  std::string json() const;
  /// The titles of the columns, and a newline: those of rows with the same columns agree.
  std::string table_head() const;
  std::string table_line() const;

 private:
  std::vector<std::pair<std::string, Value>> members_;
  std::string head_, line_;
};

}  // namespace moh
