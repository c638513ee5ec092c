# Required libraries, then one status line per optional part: found or not, and what that enables or disables.

# The system's interpreter is preferred: it finds the matplotlib that the package manager installed.
find_program(MOH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(MOH_PYTHON python3 REQUIRED)
mark_as_advanced(MOH_PYTHON)

find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
# Some columns and rows of a picture alone are decoded by functions that libjpeg-turbo adds to libjpeg.
find_package(JPEG REQUIRED)
include(CheckSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
check_symbol_exists(jpeg_crop_scanline "stddef.h;stdio.h;jpeglib.h" MOH_JPEG_IS_TURBO)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT MOH_JPEG_IS_TURBO)
  message(FATAL_ERROR "moh: ${JPEG_LIBRARIES} lacks jpeg_crop_scanline: libjpeg-turbo is required, not another libjpeg "
                      "(Debian: libjpeg62-turbo-dev)")
endif()

include(MohPlainLibraries)

# The HTTP parser of `moh serve` (Beast), which consists of headers.
find_package(Boost 1.74 REQUIRED)

# moh_status(PART FOUND DETAIL IF_FOUND IF_NOT): one line, which says what the part enables, or the fallback without it.
function(moh_status part found detail if_found if_not)
  if(found)
    message(STATUS "moh: ${part}: found (${detail}): ${if_found}")
  else()
    message(STATUS "moh: ${part}: not found: ${if_not}")
  endif()
endfunction()

# Compiling for a GPU takes minutes, so AUTO requires a GPU as well as the toolkit.
set(MOH_HAVE_CUDA FALSE)
set(cuda_absent "not found")
if(MOH_CUDA STREQUAL "OFF")
  set(cuda_absent "not looked for (MOH_CUDA=OFF)")
elseif(MOH_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl)
  set(cuda_absent "not looked for, as this machine has no NVIDIA GPU (MOH_CUDA=ON compiles for one all the same)")
else()
  find_package(CUDAToolkit QUIET)
  set(MOH_HAVE_CUDA ${CUDAToolkit_FOUND})
  if(MOH_CUDA STREQUAL "ON" AND NOT MOH_HAVE_CUDA)
    message(FATAL_ERROR "moh: MOH_CUDA=ON, but no CUDA toolkit was found; "
                        "set CUDAToolkit_ROOT or configure with -DMOH_CUDA=AUTO")
  endif()
endif()
if(MOH_HAVE_CUDA)
  # Default: the GPUs of this machine, else Hopper. -DCMAKE_CUDA_ARCHITECTURES or the environment's CUDAARCHS overrides it.
  if(NOT CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a)
    if(EXISTS /dev/nvidia0)
      set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
  endif()
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  enable_language(CUDA)
endif()
if(MOH_HAVE_CUDA)
  message(STATUS "moh: CUDA toolkit: found (${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}): device: cuda")
else()
  message(STATUS "moh: CUDA toolkit: ${cuda_absent}: this build computes on the CPU only, and refuses device: cuda")
endif()

# Convolutions call cuDNN's C API, attention its header-only C++ front end, which scripts/setup.sh fetches.
set(MOH_CUDNN_FRONTEND_VERSION 1.32.0)
set(cache_home $ENV{XDG_CACHE_HOME})
if(NOT cache_home)
  set(cache_home $ENV{HOME}/.cache)
endif()
find_path(MOH_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(MOH_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS ${cache_home}/moh/cudnn-frontend-${MOH_CUDNN_FRONTEND_VERSION}/include)
mark_as_advanced(MOH_CUDNN_INCLUDE_DIR MOH_CUDNN_FRONTEND_INCLUDE_DIR)
set(MOH_HAVE_CUDNN FALSE)
set(MOH_HAVE_CUDNN_FRONTEND FALSE)
if(MOH_HAVE_CUDA AND MOH_CUDNN AND MOH_CUDNN_INCLUDE_DIR)
  set(MOH_HAVE_CUDNN TRUE)
  if(MOH_CUDNN_FRONTEND_INCLUDE_DIR)
    set(MOH_HAVE_CUDNN_FRONTEND TRUE)
  endif()
endif()
if(MOH_CUDNN STREQUAL "ON" AND NOT MOH_HAVE_CUDNN_FRONTEND)
  message(FATAL_ERROR "moh: MOH_CUDNN=ON, but CUDA, cuDNN's headers or its front end were not found "
                      "(${MOH_CUDNN_INCLUDE_DIR}, ${MOH_CUDNN_FRONTEND_INCLUDE_DIR}); scripts/setup.sh fetches the front end; "
                      "or configure with -DMOH_CUDNN=OFF (--without-cudnn of scripts/bundle.sh and scripts/package.sh)")
endif()
moh_status("cuDNN" "${MOH_HAVE_CUDNN}" "${MOH_CUDNN_INCLUDE_DIR}" "convolutions on a GPU"
           "convolutions on a GPU are refused, but for those of single channels or pixels")
moh_status("cuDNN and its front end" "${MOH_HAVE_CUDNN_FRONTEND}" "${MOH_CUDNN_FRONTEND_INCLUDE_DIR}"
           "dense attention on a GPU"
           "dense attention on a GPU runs in moh's own kernels, and attention.backend: cudnn is refused")

# NCCL's header alone is compiled against, too; the library is loaded when several processes compute on GPUs.
find_path(MOH_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(MOH_NCCL_INCLUDE_DIR)
set(MOH_HAVE_NCCL FALSE)
if(MOH_HAVE_CUDA AND MOH_NCCL_INCLUDE_DIR)
  set(MOH_HAVE_NCCL TRUE)
endif()
moh_status("NCCL" "${MOH_HAVE_NCCL}" "${MOH_NCCL_INCLUDE_DIR}" "device: cuda in several processes"
           "several processes with GPUs need comm.backend: host")

# Only the header is compiled against: the library is loaded when a launcher has started several processes
# (train/comm/mpi_library.h), so programs need none to run, nor does a package depend on it.
set(MOH_HAVE_MPI FALSE)
set(mpi_absent "not found")
if(MOH_MPI STREQUAL "OFF")
  set(mpi_absent "not looked for (MOH_MPI=OFF)")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(MOH_MPI_INCLUDE_DIRS ${MPI_CXX_INCLUDE_DIRS})
    set(CMAKE_REQUIRED_INCLUDES ${MOH_MPI_INCLUDE_DIRS})
    check_symbol_exists(OPEN_MPI "mpi.h" MOH_MPI_IS_OPEN_MPI)
    unset(CMAKE_REQUIRED_INCLUDES)
    set(MOH_HAVE_MPI ${MOH_MPI_IS_OPEN_MPI})
    set(mpi_absent "not used, as it is not Open MPI (${MPI_CXX_INCLUDE_DIRS})")
  endif()
  if(MOH_MPI STREQUAL "ON" AND NOT MOH_HAVE_MPI)
    message(FATAL_ERROR "moh: MOH_MPI=ON, but Open MPI was ${mpi_absent}; install libopenmpi-dev, or configure with -DMOH_MPI=AUTO")
  endif()
endif()
if(MOH_HAVE_MPI)
  message(STATUS "moh: Open MPI: found (${MOH_MPI_INCLUDE_DIRS}): mpirun -np N moh train; its library is loaded when several "
                 "processes were started, and not needed otherwise")
else()
  message(STATUS "moh: Open MPI: ${mpi_absent}: this build trains in one process, and says so when mpirun starts several")
endif()
