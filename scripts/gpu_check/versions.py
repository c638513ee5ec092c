#!/usr/bin/env python3
"""Prints the versions of CUDA's libraries as one JSON object, as the libraries themselves tell them.

    versions.py FILE...

A library that cannot be loaded has the reason in place of a version.
"""

import ctypes
import json
import sys


def number_from(function):
    """The number that a function with one pointer as its argument writes there."""
    value = ctypes.c_int()
    status = function(ctypes.byref(value))
    return value.value if status == 0 else f"status {status}"


def pair_from(function):
    major, minor = ctypes.c_int(), ctypes.c_int()
    status = function(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}" if status == 0 else f"status {status}"


def result_of(function):
    function.restype = ctypes.c_size_t
    return function()


ASKED = {  # by the beginning of the file's name
    "libcublasLt": ("cublasLtGetVersion", result_of),
    "libcudnn": ("cudnnGetVersion", result_of),
    "libnvrtc": ("nvrtcVersion", pair_from),
    "libcudart": ("cudaRuntimeGetVersion", number_from),
    "libnccl": ("ncclGetVersion", number_from),
}


def version_of(file):
    name, ask = next(asked for beginning, asked in ASKED.items() if file.startswith(beginning + "."))
    try:
        return ask(getattr(ctypes.CDLL(file), name))
    except (OSError, AttributeError) as reason:
        return str(reason)


def main():
    print(json.dumps({"versions": {file: version_of(file) for file in sys.argv[1:]}}))


if __name__ == "__main__":
    main()
