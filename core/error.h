#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace moh {

/// Base of every error that moh throws. The message has the form
///   where: what: expected E, found F (context); how to fix, if known
/// so that a user can act on it without reading the source. Only main() turns an Error into an exit code.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor has the wrong rank or extents.
class ShapeError : public Error {
  using Error::Error;
};
/// A tensor has the wrong element type.
class DTypeError : public Error {
  using Error::Error;
};
/// A device is missing, or operands live on different devices.
class DeviceError : public Error {
  using Error::Error;
};
/// An argument is out of range.
class ValueError : public Error {
  using Error::Error;
};
/// The configuration or the command line is wrong (exit code 2).
class ConfigError : public Error {
  using Error::Error;
};
/// An input data file is missing, empty, damaged or of another kind (exit code 3).
class DataError : public Error {
  using Error::Error;
};
/// A checkpoint is missing, damaged or of another model (exit code 3).
class CheckpointError : public Error {
  using Error::Error;
};
/// A file of a checkpoint could not be read: no permission, too many open files, a failing disk. Its contents
/// may be intact.
class CheckpointAccessError : public CheckpointError {
  using CheckpointError::CheckpointError;
};
/// Training produced a loss or gradient that is not finite (exit code 4).
class NumericError : public Error {
  using Error::Error;
};
/// A file could not be written; what was there before is intact (exit code 5).
class StorageError : public Error {
  using Error::Error;
};
/// Memory could not be allocated, on any device.
class MemoryError : public Error {
  using Error::Error;
};

/// "where: what: expected E, found F; fix". `fix` may be empty; control characters of a name become \xNN.
std::string error_message(std::string_view where, std::string_view what, std::string_view expected,
                          std::string_view found, std::string_view fix = "");

/// Throws InternalError naming file and line: a broken invariant of moh itself, never a user's mistake.
[[noreturn]] void fail_check(const char* file, int line, const char* condition, std::string_view message);

/// A broken invariant of moh itself. The message asks for a bug report.
class InternalError : public Error {
  using Error::Error;
};

}  // namespace moh

/// Checks an invariant at the entry of an op, in every build.
#define MOH_CHECK(condition, message)                               \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::moh::fail_check(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

/// Checks an invariant inside a loop, in debug and sanitizer builds only.
#ifdef MOH_DEBUG_CHECKS
#define MOH_DCHECK(condition, message) MOH_CHECK(condition, message)
#else
#define MOH_DCHECK(condition, message) \
  do {                                 \
  } while (false)
#endif
