# cmake -DSOURCE=. -DINCLUDE=build/include -DHEADERS=core/tensor.h,... -P: headers as users of the library see them
# (MohLibrary.cmake). One that is as before is not written again.
string(REPLACE "," ";" HEADERS ${HEADERS})
foreach(header IN LISTS HEADERS)
  file(READ ${SOURCE}/${header} text)
  string(REPLACE "\n#include \"" "\n#include \"moh/" text "${text}")
  set(before "")
  if(EXISTS ${INCLUDE}/moh/${header})
    file(READ ${INCLUDE}/moh/${header} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${INCLUDE}/moh/${header} "${text}")
  endif()
endforeach()
