# cmake -DPROGRAM=FILE -DNAME=NAME -DFILE=FILE -P case_labels.cmake
#
# Writes FILE, which ctest reads behind the list of cases that catch_discover_tests(NAME) made: each has the labels cpu and NAME, and
# those without a tag of tests/support/case_tags.h the label host. Labels that are set again are added.
execute_process(COMMAND ${PROGRAM} --list-test-names-only "~[shared]~[every_isa]~[toolkit]" OUTPUT_VARIABLE names)
string(REGEX REPLACE "([^\n]+)\n" "  [==[\\1]==]\n" names "${names}")
file(WRITE ${FILE} "set_tests_properties(\${${NAME}_TESTS} PROPERTIES LABELS \"cpu;${NAME}\")
set_tests_properties(
${names}  PROPERTIES LABELS host)
")
