# Compiler and linker settings that hold for every target.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(
    FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: Oxyfuel needs g++ 12 or newer (Debian: apt-get install g++-12)"
  )
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")

# No contraction: the interpreters are references, and `a * b + c` written in C++ rounds twice on every machine.
add_compile_options(
  -Wall
  -Wextra
  -ffp-contract=off
  -fno-semantic-interposition
  -ffunction-sections
  -fdata-sections
)
add_link_options(-Wl,--gc-sections)
if(OXYFUEL_WERROR)
  add_compile_options(-Werror)
endif()

if(OXYFUEL_SANITIZE)
  # `-Og` and fewer checks are there for the time that compiling takes: a fifth of what `-O2` with all checks takes.
  # AddressSanitizer reports null pointers too, and `alignment` is turned on again where bytes are read (src/runtime).
  add_compile_options(-fsanitize=${OXYFUEL_SANITIZE} -fno-omit-frame-pointer -g1 -Og)
  add_link_options(-fsanitize=${OXYFUEL_SANITIZE})
  if(OXYFUEL_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=null,vptr,object-size,alignment)
  endif()
endif()

find_program(OXYFUEL_CCACHE ccache)
mark_as_advanced(OXYFUEL_CCACHE)
if(OXYFUEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${OXYFUEL_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${OXYFUEL_CCACHE}")
endif()

find_program(OXYFUEL_MOLD mold)
mark_as_advanced(OXYFUEL_MOLD)
if(OXYFUEL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
