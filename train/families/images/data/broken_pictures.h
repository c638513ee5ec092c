#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"

namespace moh {

/// Treatment of a picture that cannot be read or decoded.
enum class OnError {
  kStop,  ///< throw
  kSkip,  ///< take the next sound picture in its place; in an evaluation, leave it out
};
std::span<const std::string_view> names_of(OnError);

/// The broken pictures that were met, each counted once. Thread-safe.
class BrokenPictures {
 public:
  void add(std::int64_t index, const std::string& message);
  std::int64_t count() const;
  /// "2 broken pictures: a.jpg: JPEG: expected ...; b.png: ..."; the messages of the first few. "" for none.
  std::string describe() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::string> messages_;
};

/// Calls make(index), and with kSkip, where that throws a DataError, for the next of `size` pictures in its
/// place, which is noted in `broken` (null with kStop). Returns the index of the one that was made. Rethrows
/// with kStop, and where sound pictures are rare.
std::int64_t first_sound(std::int64_t index, std::int64_t size, OnError on_error, BrokenPictures* broken,
                         FunctionRef<void(std::int64_t index)> make);

/// The text of Task::remarks() about the broken pictures of both kinds of data.
std::vector<std::pair<std::string, std::string>> broken_remarks(const BrokenPictures& in_training,
                                                                const BrokenPictures& in_validation);

}  // namespace moh
