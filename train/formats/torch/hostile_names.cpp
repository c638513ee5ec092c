#include "train/formats/torch/hostile_names.h"

#include <algorithm>
#include <string>

namespace moh {

namespace {

// Modules, which stand for all that is below them too; single functions where a module has harmless classes,
// or other people's modules have its name.
constexpr std::string_view kHostile[] = {
    // What runs programs,
    "_posixsubprocess", "asyncio.subprocess", "commands.getoutput", "commands.getstatusoutput", "distutils",
    "ensurepip", "multiprocessing.popen_fork.Popen", "multiprocessing.util.spawnv_passfds", "nt", "os", "pip",
    "popen2", "posix", "pty", "setuptools", "subprocess", "torch.utils.cpp_extension", "venv", "webbrowser",
    // runs code, Python's or any,
    "_ctypes", "bdb", "builtins.apply", "builtins.breakpoint", "builtins.compile", "builtins.eval",
    "builtins.exec", "builtins.execfile", "builtins.input", "cProfile", "code.InteractiveConsole",
    "code.InteractiveInterpreter", "code.interact", "codeop", "ctypes", "doctest", "numpy.testing", "pdb",
    "profile.Profile", "profile.run", "runpy", "timeit", "trace.Trace",
    // imports modules, loads libraries or reads other pickles,
    "_pickle", "builtins.__import__", "cPickle", "cloudpickle", "dill", "imp", "importlib", "joblib",
    "marshal", "numpy.load", "pickle", "pkgutil", "pydoc", "torch.classes.load_library", "torch.hub",
    "torch.jit.load", "torch.load", "torch.ops.load_library", "torch.serialization.load", "zipimport",
    // opens files or connections,
    "_io.open", "builtins.file", "builtins.open", "codecs.open", "ftplib", "http", "io.open", "io.open_code",
    "linecache", "numpy.fromfile", "numpy.memmap", "requests", "shutil", "smtplib", "socket", "ssl",
    "telnetlib", "tempfile", "urllib", "urllib2", "xmlrpc",
    // or changes or ends the program around it.
    "builtins.delattr", "builtins.exit", "builtins.globals", "builtins.locals", "builtins.quit",
    "builtins.raw_input", "builtins.setattr", "builtins.vars", "operator.attrgetter", "operator.methodcaller",
    "sys"};

}  // namespace

bool is_hostile_name(std::string_view module, std::string_view name) {
  std::string full(module == "__builtin__" ? "builtins" : module);  // as Python 2 calls it
  full.append(".").append(name);
  return std::ranges::any_of(kHostile, [&](std::string_view hostile) {
    return full.starts_with(hostile) && (full.size() == hostile.size() || full[hostile.size()] == '.');
  });
}

}  // namespace moh
