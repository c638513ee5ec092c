#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "train/apps/python/errors.h"
#include "train/apps/python/language.h"
#include "train/apps/python/logging.h"
#include "train/apps/python/open_model.h"
#include "train/apps/python/pictures.h"
#include "train/apps/python/training.h"
#include "train/apps/python/translation.h"

namespace nb = nanobind;

/// The extension behind the package in train/apps/python/moh, which has the names, defaults and documentation
/// that users see.
NB_MODULE(_moh, module) {
  namespace python = moh::python;
  python::translate_errors();
  module.attr("version") = MOH_VERSION;
  module.def("instruction_set", [] { return std::string(moh::cpu_isa_name(moh::cpu_isa())); });
  module.def("num_threads", &moh::num_threads);
  module.def("set_num_threads", &moh::set_num_threads);
  module.def("set_log_level", &python::set_log_level);
  nb::class_<python::OpenModel> model(module, "OpenModel");
  model
      .def(nb::init<const std::filesystem::path&, const std::vector<std::string>&,
                    const std::filesystem::path&>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("path", &python::OpenModel::path)
      .def_prop_ro("task", &python::OpenModel::task)
      .def_prop_ro("config", &python::OpenModel::config)
      .def_prop_ro("parameters", &python::OpenModel::parameters);
  python::add_language(model);
  python::add_pictures(model);
  python::add_translation(model);
  python::add_training(module);
}
