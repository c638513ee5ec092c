# Required libraries, then one status line per optional part: found or not, and what it switches on.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

find_path(MOH_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(MOH_XXHASH_LIBRARY xxhash REQUIRED)
mark_as_advanced(MOH_XXHASH_INCLUDE_DIR MOH_XXHASH_LIBRARY)
add_library(moh_xxhash INTERFACE)
target_include_directories(moh_xxhash SYSTEM INTERFACE ${MOH_XXHASH_INCLUDE_DIR})
target_link_libraries(moh_xxhash INTERFACE ${MOH_XXHASH_LIBRARY})

# moh_status(PART FOUND DETAIL IF_FOUND IF_NOT): one line, which says what the part switches on, or what is done
# without it.
function(moh_status part found detail if_found if_not)
  if(found)
    message(STATUS "moh: ${part}: found (${detail}): ${if_found}")
  else()
    message(STATUS "moh: ${part}: not found: ${if_not}")
  endif()
endfunction()

# oneDNN is looked up by header and library: its package file asks for OpenCL headers that nothing here uses.
find_path(MOH_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(MOH_DNNL_LIBRARY dnnl)
mark_as_advanced(MOH_DNNL_INCLUDE_DIR MOH_DNNL_LIBRARY)
set(MOH_HAVE_DNNL FALSE)
if(MOH_DNNL_INCLUDE_DIR AND MOH_DNNL_LIBRARY)
  set(MOH_HAVE_DNNL TRUE)
  add_library(moh_dnnl INTERFACE)
  target_include_directories(moh_dnnl SYSTEM INTERFACE ${MOH_DNNL_INCLUDE_DIR})
  target_link_libraries(moh_dnnl INTERFACE ${MOH_DNNL_LIBRARY})
endif()
moh_status("oneDNN" "${MOH_HAVE_DNNL}" "${MOH_DNNL_LIBRARY}" "fast matrix products on the CPU"
           "matrix products fall back to moh's own loops, which are several times slower; install libdnnl-dev")

# What belongs to GPUs and to several processes is looked for, and reported, but nothing in this version uses it: all
# computation runs on the CPU in one process, and parse_device() refuses device: cuda.
set(MOH_HAVE_CUDA FALSE)
if(NOT MOH_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  set(MOH_HAVE_CUDA ${CUDAToolkit_FOUND})
  if(MOH_CUDA STREQUAL "ON" AND NOT MOH_HAVE_CUDA)
    message(FATAL_ERROR "moh: MOH_CUDA=ON, but no CUDA toolkit was found; "
                        "set CUDAToolkit_ROOT or configure with -DMOH_CUDA=AUTO")
  endif()
endif()
set(unused "not used by this version, which computes on the CPU")
set(needless "not needed by this version, which computes on the CPU")
if(MOH_CUDA STREQUAL "OFF")
  message(STATUS "moh: CUDA toolkit: not looked for (MOH_CUDA=OFF): ${needless}")
else()
  moh_status("CUDA toolkit" "${MOH_HAVE_CUDA}" "${CUDAToolkit_VERSION}" "${unused}" "${needless}")
endif()

find_library(MOH_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
find_library(MOH_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
mark_as_advanced(MOH_CUDNN_LIBRARY MOH_NCCL_LIBRARY)
moh_status("cuDNN" "${MOH_CUDNN_LIBRARY}" "${MOH_CUDNN_LIBRARY}" "${unused}" "${needless}")
moh_status("NCCL" "${MOH_NCCL_LIBRARY}" "${MOH_NCCL_LIBRARY}" "${unused}" "${needless}")

find_package(MPI QUIET COMPONENTS CXX)
moh_status("MPI" "${MPI_CXX_FOUND}" "${MPI_CXX_VERSION}" "not used by this version, which trains in one process"
           "not needed by this version, which trains in one process")
