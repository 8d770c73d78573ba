# What comes from outside, all of it from PyPI packages of the build's Python:
# - `oxyfuel_llvm`: LLVM's static libraries and headers (mlc-llvm-static), for src/codegen alone
# - `oxyfuel_dlpack`: the DLPack header (apache-tvm-ffi)
# - nanobind's CMake files
# GoogleTest comes from the system (Debian: libgtest-dev); tests/unit looks for it.

if(NOT Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
if(OXYFUEL_PYTHON)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
endif()

# The folder of an installed Python package, found without importing it.
function(oxyfuel_python_package_dir package pip_name out)
  execute_process(
    COMMAND
      "${Python_EXECUTABLE}" -c
      "import importlib.util as u; print(u.find_spec('${package}').submodule_search_locations[0])"
    OUTPUT_VARIABLE dir
    ERROR_VARIABLE ignored
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status
  )
  if(NOT status EQUAL 0)
    message(
      FATAL_ERROR
      "${Python_EXECUTABLE} has no package ${pip_name}: run `make venv`, or pass -DPython_EXECUTABLE=… of an environment "
      "that has what [build-system] in pyproject.toml lists"
    )
  endif()
  set(${out} "${dir}" PARENT_SCOPE)
endfunction()

oxyfuel_python_package_dir(tvm_ffi apache-tvm-ffi tvm_ffi_dir)
add_library(oxyfuel_dlpack INTERFACE)
target_include_directories(oxyfuel_dlpack SYSTEM INTERFACE "${tvm_ffi_dir}/include")
if(NOT EXISTS "${tvm_ffi_dir}/include/dlpack/dlpack.h")
  message(FATAL_ERROR "${tvm_ffi_dir}/include/dlpack/dlpack.h is missing: the apache-tvm-ffi package has moved it")
endif()

if(OXYFUEL_PYTHON)
  oxyfuel_python_package_dir(nanobind nanobind nanobind_dir)
  set(nanobind_DIR "${nanobind_dir}/cmake")
endif()

oxyfuel_python_package_dir(mlc_llvm_static mlc-llvm-static llvm_package_dir)
set(llvm_prefix "${llvm_package_dir}/static")
set(LLVM_DIR "${llvm_prefix}/lib/cmake/llvm")
set(ZLIB_USE_STATIC_LIBS ON)
list(PREPEND CMAKE_PREFIX_PATH "${llvm_prefix}")
find_package(LLVM 23.1 REQUIRED CONFIG NO_DEFAULT_PATH PATHS "${LLVM_DIR}")

set(llvm_targets "")
set(llvm_target_definitions "")
foreach(target IN LISTS OXYFUEL_LLVM_TARGETS)
  if(target IN_LIST LLVM_TARGETS_TO_BUILD)
    string(TOUPPER ${target} upper)
    list(APPEND llvm_targets ${target})
    list(APPEND llvm_target_definitions OXYFUEL_LLVM_TARGET_${upper}=1)
  endif()
endforeach()
message(STATUS "Oxyfuel: LLVM ${LLVM_PACKAGE_VERSION} with ${llvm_targets}")
llvm_map_components_to_libnames(
  llvm_libraries
  Core Support Analysis AsmParser IRReader BitReader BitWriter Linker Passes CodeGen AsmPrinter SelectionDAG
  AggressiveInstCombine InstCombine ipo ScalarOpts TransformUtils Vectorize
  MC MCDisassembler MCA Object DebugInfoDWARF Target TargetParser
  JITLink OrcJIT OrcShared OrcTargetProcess RuntimeDyld
  ${llvm_targets}
)
add_library(oxyfuel_llvm INTERFACE)
target_include_directories(oxyfuel_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_flags NATIVE_COMMAND "${LLVM_DEFINITIONS}")
# LLVM's libraries are built without run-time type information: a class of ours derived from one of theirs needs the same.
target_compile_options(oxyfuel_llvm INTERFACE ${llvm_flags} $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
target_compile_definitions(oxyfuel_llvm INTERFACE ${llvm_target_definitions})
target_link_libraries(oxyfuel_llvm INTERFACE ${llvm_libraries})
