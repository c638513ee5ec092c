#include "train/formats/torch/hostile_names.h"

#include <algorithm>
#include <string>

namespace moh {

namespace {

// Modules, which include their submodules and members; single functions if the module also has harmless
// classes, or if its name is common.
constexpr std::string_view kHostile[] = {
    // What runs programs,
    "_aix_support", "_osx_support", "_posixsubprocess", "asyncio", "commands.getoutput",
    "commands.getstatusoutput", "distutils", "ensurepip", "multiprocessing.popen_fork.Popen",
    "multiprocessing.util.spawnv_passfds", "nt", "os", "pexpect", "pip", "popen2", "posix", "psutil", "pty",
    "setuptools", "subprocess", "torch._inductor.codecache", "torch.utils.bottleneck",
    "torch.utils.collect_env", "torch.utils.cpp_extension", "uuid._get_command_stdout", "venv", "webbrowser",
    // runs code, Python's or any,
    "_ctypes", "bdb", "builtins.apply", "builtins.breakpoint", "builtins.compile", "builtins.eval",
    "builtins.exec", "builtins.execfile", "builtins.input", "cProfile", "cffi", "cgitb",
    "code.InteractiveConsole", "code.InteractiveInterpreter", "code.interact", "codeop", "ctypes", "doctest",
    "idlelib", "lib2to3", "numpy.f2py", "numpy.testing", "pandas.eval", "pdb", "profile.Profile",
    "profile.run", "runpy", "timeit", "torch._dynamo.guards", "trace.Trace", "types.CodeType",
    "types.FunctionType",
    // imports modules, loads libraries or reads other pickles,
    "_pickle", "builtins.__import__", "cPickle", "cloudpickle", "dill", "imp", "importlib", "joblib",
    "marshal", "numpy.load", "pandas.read_pickle", "pickle", "pkgutil", "pydoc", "shelve", "site",
    "torch.classes.load_library", "torch.hub", "torch.jit.load", "torch.load", "torch.ops.load_library",
    "torch.serialization.load", "yaml.unsafe_load", "zipimport",
    // opens files or connections,
    "_io.open", "_socket", "aiohttp", "builtins.file", "builtins.open", "codecs.open", "ftplib", "http",
    "httplib", "httpx", "imaplib", "io.open", "io.open_code", "linecache", "nntplib", "numpy.fromfile",
    "numpy.memmap", "poplib", "requests", "shutil", "smtplib", "socket", "socketserver", "sqlite3", "ssl",
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
