#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

/// What to do about a picture that cannot be read or decoded.
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

/// What Task::remarks() says of the broken pictures of both kinds of data.
std::vector<std::pair<std::string, std::string>> broken_remarks(const BrokenPictures& in_training,
                                                                const BrokenPictures& in_validation);

}  // namespace moh
