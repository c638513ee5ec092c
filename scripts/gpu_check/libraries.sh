# shellcheck shell=bash disable=SC2154
# Finds the shared libraries of CUDA that moh loads at run time. Sourced, not run.

# GEMM needs the first; attention through cuDNN the next ones; several processes the last.
libraries=(libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libcudart.so.13 libnccl.so.2)

# The file that the dynamic loader would load for a library; nothing if it finds none.
loaded_library() {
  local folder named
  IFS=: read -ra named <<<"${LD_LIBRARY_PATH:-}"
  for folder in "${named[@]}"; do
    if [ -n "$folder" ] && [ -e "$folder/$1" ]; then echo "$folder/$1" && return; fi
  done
  { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null || true; } |
    awk -v name="$1" '$1 == name && file == "" { file = $NF } END { print file }'
}

# Folders outside the loader's search path: those of toolkits and of Python packages.
other_library_folders() {
  local folder
  printf '%s\n' ${venv:+"$venv"/lib/python3*/site-packages/nvidia/*/lib}
  for folder in "${toolkits[@]}"; do printf '%s\n' "$folder"/{lib64,lib} "$folder"/targets/*/lib; done
  { python3 -c 'import site; print(*site.getsitepackages(), site.getusersitepackages(), sep="\n")' 2>/dev/null || true; } |
    while read -r folder; do printf '%s\n' "$folder"/nvidia/*/lib; done
}

# Prints the path of each library, and appends folders outside the loader's search path to LD_LIBRARY_PATH.
# found_libraries: the paths as JSON.
find_libraries() {
  local library folder file folders
  mapfile -t folders < <(other_library_folders)
  found_libraries=''
  for library in "${libraries[@]}"; do
    file=$(loaded_library "$library")
    for folder in "${folders[@]}"; do
      if [ -n "$file" ] || [ ! -e "$folder/$library" ]; then continue; fi
      file=$folder/$library
      export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    say "$library: ${file:-not found}"
    found_libraries+=${found_libraries:+,}$(json_string "$library: ${file:-not found}")
    # cuDNN's front end loads the CUDA runtime by a name that may be missing or belong to another version.
    if [ -n "$file" ] && [ "$library" = libcudart.so.13 ]; then
      export CUDNN_FRONTEND_CUDART_LIB_NAME=${CUDNN_FRONTEND_CUDART_LIB_NAME:-$library}
    fi
  done
  [[ $found_libraries != *'libcublasLt.so.13: not found'* ]] ||
    die "libcublasLt.so.13 was found neither by the system's loader nor in ${toolkits[*]} nor in Python's packages; matrix" \
      "multiplications need it. Install cuBLAS of CUDA 13, or put its folder into LD_LIBRARY_PATH"
}
