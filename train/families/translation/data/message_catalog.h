#pragma once

#include <filesystem>
#include <vector>

#include "train/families/translation/data/parallel_text.h"

namespace moh {

/// The pairs of a message catalog, in its order: (message, translation). Messages without a pair are counted
/// in `dropped` as "credits" (a request for the translators' names), "plural form" (see below) and "invalid
/// text" (bytes that are not of the catalog's character set).
///
/// Reads the binary form of GNU gettext (.mo; section "The Format of GNU MO Files" of its manual) of major
/// revisions 0 and 1 and either byte order. The hash table is not read, nor are strings that depend on the
/// system (those with <PRIu64> and the like), which have tables of their own.
///
/// - The header entry, the translation of "", names the character set and is no pair. Text becomes UTF-8.
/// - A context (in front of the byte 4) is removed.
/// - Plural forms: with one form, the plural is paired with it; with two, the singular with the first and the
///   plural with the second; with more, the plural with the last. Then it would take the catalog's formula to
///   tell the form of 1 and of 2, and the other forms and the singular give no pair.
/// - Placeholders such as %s and {name} stay.
/// - Marks of accelerator keys are removed (accelerator.h).
///
/// Throws DataError for a file that is no catalog, whose tables or strings lie outside of it, whose strings
/// overlap, or whose character set is not known. Memory: the file, of at most 256 MiB, and its pairs.
std::vector<TextPair> read_message_catalog(const std::filesystem::path& path, DroppedPairs& dropped);

}  // namespace moh
