#pragma once

#include <string>
#include <string_view>

namespace moh {

/// ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// Whether a lower-case extension without its dot is that of a picture: jpg, jpeg or png.
bool is_picture_extension(std::string_view extension);

/// Whether a file counts as a picture by its name: it ends in .jpg, .jpeg or .png, in upper or lower case.
bool is_picture_name(std::string_view name);

/// Whether a name in a folder is passed over: it begins with a dot, as AppleDouble's `._NAME` does, or is
/// `__MACOSX`.
bool is_hidden_name(std::string_view name);

/// Whether a file of an archive is passed over: it, or a folder of its path, has such a name.
bool is_hidden_path(std::string_view path);

}  // namespace moh
