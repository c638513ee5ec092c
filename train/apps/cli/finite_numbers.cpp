#include "train/apps/cli/finite_numbers.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

#include "train/base/io/printable.h"

namespace moh::cli {

namespace {

/// The library's text of an error, "" for none.
std::string error_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool is_number = end != text.c_str() && *end == '\0';
  return is_number && !std::isfinite(number) ? "expected a finite number, found " + printable(text) : "";
}

}  // namespace

void require_finite_numbers(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    // CLI11's name for the type of double, and of vectors and optionals of it.
    if (option->get_type_name().find("FLOAT") != std::string::npos) option->check(error_of);
  }
  for (CLI::App* const command : app.get_subcommands({})) require_finite_numbers(*command);
}

}  // namespace moh::cli
