#pragma once

#include "train/base/http/http_reply.h"

namespace moh::watch {

/// The page of moh watch: one document with its style and its script in it, which asks for nothing of other
/// servers, and may not: its content security policy allows this style, this script and this server's data
/// alone.
HttpReply page_reply();

}  // namespace moh::watch
