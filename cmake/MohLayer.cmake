# moh_compile_cold(TARGET): -O1 in a release build, as more optimisation would cost a third of the compile time for code that
# runs rarely.
function(moh_compile_cold target)
  # At -O1, GCC bug 105651 (MohOptions.cmake) appears as a false out-of-bounds read.
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>>)
endfunction()

# moh_unity(TARGET): with MOH_UNITY, its files are compiled in batches of ten, as most of what a compiler reads for a file are
# headers, ours and those of JSON, that the other files of its folder include, too. Larger batches would keep fewer compilers
# busy. CMake leaves out files with options or definitions of their own. Names in unnamed namespaces are those of a batch, so
# they say more than kOp.
function(moh_unity target)
  if(MOH_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
  moh_compile_batches(${target})
endfunction()

# moh_compile_batches(TARGET): GCC takes what a batch includes for headers, in which a class with members of an unnamed namespace
# would be a mistake.
function(moh_compile_batches target)
  if(MOH_UNITY)
    target_compile_options(${target} PRIVATE
      $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
  endif()
endfunction()

# moh_cuda_batches(VARIABLE LAYER FILE...): what to compile for these CUDA files: with MOH_UNITY, files that include ten of them each.
# CMake's own unity builds are for C and C++. nvcc takes three seconds for the headers of a small kernel file.
function(moh_cuda_batches variable layer)
  if(NOT MOH_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(files ${ARGN})
  set(batches "")
  while(files)
    list(SUBLIST files 0 10 batch)
    list(REMOVE_ITEM files ${batch})
    list(TRANSFORM batch REPLACE "(.+)" "#include \"${layer}/\\1\"\n")
    list(JOIN batch "" content)
    list(LENGTH batches number)
    set(path ${PROJECT_BINARY_DIR}/cuda_batches/${layer}_${number}.cu)
    file(CONFIGURE OUTPUT ${path} CONTENT "${content}")
    list(APPEND batches ${path})
  endwhile()
  set(${variable} ${batches} PARENT_SCOPE)
endfunction()

# moh_optimise(FILE...): files of targets without optimisation that would take longer to run than they take to compile with it.
function(moh_optimise)
  set_property(SOURCE ${ARGV} APPEND PROPERTY COMPILE_OPTIONS -O1)
  set_property(SOURCE ${ARGV} PROPERTY SKIP_PRECOMPILE_HEADERS ON) # which were compiled without
endfunction()

# moh_loops(FILE...): moh_optimise() where instrumented code is not optimised.
function(moh_loops)
  if(MOH_SANITIZE AND NOT MOH_FUZZ)
    moh_optimise(${ARGV})
  endif()
endfunction()

# moh_layer(NAME [OBJECT] [COLD] [WITHOUT FOLDER...] [PRECOMPILE HEADER...] DEPENDS LAYER... SOURCES FILE...)
#
# One library per layer, and per room of train/ (NAME is then train/ROOM). Each has its own include root, which contains
# only a link to its folder, and a target gets the include roots of its dependencies and no others: `#include "ops/..."` in
# core/ does not compile. tests/build/layering_test.py checks this. OBJECT: an object library, whose objects become part
# of another library. COLD: moh_compile_cold(). WITHOUT: subfolders that are rooms of their own. PRECOMPILE: headers that nearly
# all files of the layer include, precompiled for it beside those of the standard library.
function(moh_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OBJECT;COLD" "" "DEPENDS;SOURCES;WITHOUT;PRECOMPILE")
  string(REPLACE "/" "_" word ${name})
  set(target moh_${word})
  set(root ${PROJECT_BINARY_DIR}/include_roots/${word})
  set(folders ${name})
  if(arg_WITHOUT)
    file(GLOB folders CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${name}/*)
    list(TRANSFORM arg_WITHOUT PREPEND ${name}/)
    list(REMOVE_ITEM folders ${arg_WITHOUT})
  endif()
  # A link of an earlier configuration, where this folder was whole: links below it would be made in the source tree.
  file(REMOVE_RECURSE ${root})
  foreach(folder IN LISTS folders)
    get_filename_component(parent ${root}/${folder} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  endforeach()

  set(kind STATIC)
  if(arg_OBJECT)
    set(kind OBJECT)
  endif()
  add_library(${target} ${kind} ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${root})
  target_link_libraries(${target} PUBLIC moh_compile_options)
  moh_precompile_library(${target} ${arg_PRECOMPILE})
  if(arg_COLD)
    moh_compile_cold(${target})
  endif()
  moh_unity(${target})
  if(MOH_SANITIZE AND NOT MOH_FUZZ AND NOT name MATCHES "^train/")
    target_compile_options(${target} PRIVATE -O0) # instrumented code takes long to optimise, and loops are in kernels
    if(MOH_UNITY AND NOT name STREQUAL "models")
      set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 40) # which share instrumented templates
    endif()
  endif()
  foreach(layer IN LISTS arg_DEPENDS)
    string(REPLACE "/" "_" dependency moh_${layer})
    target_link_libraries(${target} PUBLIC ${dependency})
  endforeach()
endfunction()

# moh_cpu_kernels(LAYER SOURCES FILE... [MATRIX FILE...] [GEMM FILE...])
#
# Compiles kernel files once per instruction set of MOH_CPU_ISAS, those after MATRIX per instruction set of MOH_CPU_MATRIX_ISAS,
# too, and those after GEMM per instruction set of MOH_CPU_GEMM_ISAS alone; core/cpu_isa.h chooses among them at run time. Each
# copy instantiates its templates with its own tag type (MOH_ISA), so that the linker keeps them apart.
function(moh_cpu_kernels layer)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;MATRIX;GEMM")
  set(flags_Baseline "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(flags_Baseline -march=x86-64-v2)
  endif()
  set(flags_Avx2 -march=x86-64-v3)
  set(flags_Avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  set(flags_Avx512Bf16 ${flags_Avx512} -mavx512bf16)
  set(flags_Amx ${flags_Avx512Bf16} -mamx-tile -mamx-bf16)
  list(GET MOH_CPU_ISAS 0 least)
  set(flags_AmxPlain ${flags_${least}})
  set(optimisation -O3)
  if(MOH_SANITIZE)
    # -O1 takes twice as long to compile instrumented code, which then is no faster. Registers are allocated at one go.
    set(optimisation -Og $<$<CXX_COMPILER_ID:GNU>:-fira-region=one>)
  endif()
  foreach(isa IN LISTS MOH_CPU_ISAS MOH_CPU_MATRIX_ISAS MOH_CPU_GEMM_ISAS)
    if(isa IN_LIST MOH_CPU_ISAS)
      set(sources ${arg_SOURCES} ${arg_MATRIX})
    elseif(isa IN_LIST MOH_CPU_MATRIX_ISAS)
      set(sources ${arg_MATRIX})
    else()
      set(sources ${arg_GEMM})
    endif()
    if(NOT sources)
      continue()
    endif()
    set(target moh_${layer}_kernels_${isa})
    add_library(${target} OBJECT ${sources})
    # Kernels ignore errno, floating-point exception flags and signalling NaNs, but rely on infinities, quiet NaNs and the
    # order of operations as written: no -ffast-math.
    target_compile_options(${target} PRIVATE ${flags_${isa}} ${optimisation} -fopenmp-simd -fno-math-errno -fno-trapping-math)
    target_compile_definitions(${target} PRIVATE MOH_ISA=${isa})
    set_target_properties(${target} PROPERTIES MOH_KERNELS ON)
    target_link_libraries(${target} PRIVATE moh_compile_options)
    target_include_directories(${target} PRIVATE
      $<TARGET_PROPERTY:moh_${layer},INTERFACE_INCLUDE_DIRECTORIES>)
    moh_precompile_kernels(${target} ${isa})
    target_sources(moh_${layer} PRIVATE $<TARGET_OBJECTS:${target}>)
    set_property(TARGET moh_${layer} APPEND PROPERTY MOH_KERNEL_OBJECTS $<TARGET_OBJECTS:${target}>)
  endforeach()
endfunction()

# moh_cuda(LAYER LIBRARY...): the layer has CUDA sources, defines MOH_HAVE_CUDA, and links these libraries.
function(moh_cuda layer)
  target_compile_definitions(moh_${layer} PRIVATE MOH_HAVE_CUDA)
  target_link_libraries(moh_${layer} PRIVATE ${ARGN})
  target_include_directories(moh_${layer} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endfunction()

# moh_simulated(LAYER FILE...): sources of the layer that tests/cuda_sim compiles again for its simulated GPU.
function(moh_simulated layer)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  set_property(GLOBAL PROPERTY MOH_SIMULATED_${layer} ${ARGN})
endfunction()
