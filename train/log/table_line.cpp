#include "train/log/table_line.h"

#include <cstdarg>
#include <cstdio>
#include <ostream>

namespace moh {

void write_line(std::ostream& out, const char* name, const char* format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char head[24];
  std::snprintf(head, sizeof head, "%-20s", name);
  out << head << text << '\n';
}

}  // namespace moh
