# Writes OUTPUT, a source file with the commit of the source tree SOURCE, where that differs from what it says:
#
#   cmake -DSOURCE=FOLDER -DOUTPUT=FILE.cpp -P MohCommit.cmake
#
# Without git, or in a tree that is no repository of its own, the commit is not known.

set(commit "")
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE top
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
file(REAL_PATH ${SOURCE} source)
if("${failed}" STREQUAL "0" AND "${top}" STREQUAL "${source}")
  execute_process(COMMAND git rev-parse --short=10 HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND git --no-optional-locks status --porcelain --untracked-files=no WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(commit AND changes)
    string(APPEND commit " with changes")
  endif()
endif()

set(text "namespace moh::cli {\nextern const char* const build_commit;\nconst char* const build_commit = \"${commit}\";\n}\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
