#include "train/apps/python/errors.h"

#include <exception>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "train/base/io/error_words.h"
#include "train/comm/exit_code.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

void raise(const std::exception& error) {
  const std::string words = error_words(error);
  const nb::object type = nb::module_::import_("moh.errors").attr("of_exit_code")(int(exit_code_of(error)));
  PyErr_SetString(type.ptr(), words.c_str());
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    } catch (const std::filesystem::filesystem_error& error) {
      raise(error);
    }
  });
}

}  // namespace moh::python
