# oxyfuel_python_module([DEPENDS <layer>…])
#
# Makes the nanobind module `oxyfuel/_C` (target `oxyfuel_python`) from every .cpp file under the calling folder. Only
# PyInit__C and what gdb looks for leave the module: LLVM, nanobind and our own symbols are local, so another LLVM in the
# process does no harm.
function(oxyfuel_python_module)
  cmake_parse_arguments(PARSE_ARGV 0 module "" "" "DEPENDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(NOT sources)
    message(STATUS "Oxyfuel: the Python module has no sources yet")
    return()
  endif()
  find_package(nanobind CONFIG REQUIRED)
  nanobind_add_module(oxyfuel_python NB_STATIC NB_DOMAIN oxyfuel ${sources})
  set_target_properties(
    oxyfuel_python
    PROPERTIES OUTPUT_NAME _C LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/python_module.map"
  )
  target_include_directories(oxyfuel_python PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(oxyfuel_python PRIVATE OXYFUEL_VERSION="${PROJECT_VERSION}")
  target_link_libraries(oxyfuel_python PRIVATE oxyfuel_dlpack)
  foreach(dependency IN LISTS module_DEPENDS)
    target_link_libraries(oxyfuel_python PRIVATE $<TARGET_NAME_IF_EXISTS:oxyfuel_${dependency}>)
  endforeach()
  target_link_options(
    oxyfuel_python
    PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/python_module.map" -Wl,-z,now
  )
  install(TARGETS oxyfuel_python LIBRARY DESTINATION oxyfuel COMPONENT python)
endfunction()
