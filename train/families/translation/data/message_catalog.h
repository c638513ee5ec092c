#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/families/translation/data/parallel_text.h"

namespace moh {

/// The pairs of a message catalog, in its order: (message, translation). `dropped` counts messages that give
/// no pair as "credits" (names of translators), "invalid text" and "plural form".
///
/// Reads the binary form of GNU gettext (.mo: its manual, "The Format of GNU MO Files"), major revisions 0
/// and 1, of either byte order. Strings that depend on the system (minor revision 1, such as <PRIu64>) are in
/// tables of their own and not read, nor is the hash table.
///
/// - The header entry, the translation of "", gives the character set and is no pair. Text becomes UTF-8.
/// - A context (before the byte 4) is removed.
/// - A message with a plural is paired by form. With one form, the plural goes with it; with two, the
/// singular
///   with the first and the plural with the second, as all such languages have it; with more, the plural with
///   the last, and the singular gives no pair, since the catalog's formula tells which form is that of 1.
/// - Placeholders such as %s and {name} stay, in both texts.
/// - The mark of an accelerator key, the only one of the characters _ & ~ before a letter or digit in both
///   texts, is removed from both ("_Open", "Ö_ffnen"), with its parentheses where the key stands apart
///   ("(_O)").
///
/// Throws DataError for a file that is no catalog, whose tables or strings lie outside of it, or whose
/// character set is not known. Memory: the file, of at most 256 MiB, and its pairs.
std::vector<TextPair> read_message_catalog(const std::filesystem::path& path, DroppedPairs& dropped);

}  // namespace moh
