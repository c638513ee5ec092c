#include "train/formats/torch/hostile_names.h"

#include <algorithm>

namespace moh {

namespace {

// With all that is below them.
constexpr std::string_view kModules[] = {
    "_ctypes",
    "_pickle",
    "_posixsubprocess",
    "asyncio.subprocess",
    "bdb",
    "cPickle",
    "cProfile",
    "cloudpickle",
    "codeop",
    "ctypes",
    "dill",
    "distutils",
    "doctest",
    "ensurepip",
    "ftplib",
    "http",
    "imp",
    "importlib",
    "joblib",
    "linecache",
    "marshal",
    "nt",
    "numpy.testing",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "popen2",
    "posix",
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "setuptools",
    "shutil",
    "smtplib",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "telnetlib",
    "tempfile",
    "timeit",
    "torch.hub",
    "torch.utils.cpp_extension",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "xmlrpc",
    "zipimport",
};

constexpr std::string_view kBuiltins[] = {
    "__import__", "apply",   "breakpoint", "compile", "delattr", "eval",      "exec", "execfile", "exit",
    "file",       "globals", "input",      "locals",  "open",    "raw_input", "quit", "setattr",  "vars",
};

// Of modules that have harmless classes too, or whose names other people's modules have as well.
constexpr std::string_view kFunctions[] = {
    "code.InteractiveConsole",
    "code.InteractiveInterpreter",
    "code.interact",
    "commands.getoutput",
    "commands.getstatusoutput",
    "profile.Profile",
    "profile.run",
    "trace.Trace",
    "_io.open",
    "io.open",
    "io.open_code",
    "codecs.open",
    "numpy.load",
    "numpy.fromfile",
    "numpy.memmap",
    "operator.attrgetter",
    "operator.methodcaller",
    "torch.load",
    "torch.jit.load",
    "torch.serialization.load",
    "torch.ops.load_library",
    "torch.classes.load_library",
    "multiprocessing.popen_fork.Popen",
    "multiprocessing.util.spawnv_passfds",
};

bool is_within(std::string_view module, std::string_view parent) {
  return module.starts_with(parent) && (module.size() == parent.size() || module[parent.size()] == '.');
}

}  // namespace

bool is_hostile_name(std::string_view module, std::string_view name) {
  if (std::ranges::any_of(kModules, [&](std::string_view m) { return is_within(module, m); })) return true;
  if (module == "builtins" || module == "__builtin__") {
    return std::ranges::find(kBuiltins, name) != std::ranges::end(kBuiltins);
  }
  return std::ranges::any_of(kFunctions, [&](std::string_view function) {
    return function.size() == module.size() + 1 + name.size() && function.starts_with(module) &&
           function.ends_with(name) && function[module.size()] == '.';
  });
}

}  // namespace moh
