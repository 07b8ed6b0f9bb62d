# find_package(splitpoint) gives the targets splitpoint::splitpoint, the shared library, and splitpoint::static.

get_filename_component(_splitpoint_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET splitpoint::splitpoint)
  add_library(splitpoint::splitpoint SHARED IMPORTED)
  set_target_properties(splitpoint::splitpoint PROPERTIES
    IMPORTED_LOCATION "${_splitpoint_prefix}/lib/libsplitpoint.so.0"
    IMPORTED_SONAME "libsplitpoint.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_splitpoint_prefix}/include")

  find_package(Threads REQUIRED)
  add_library(splitpoint::static STATIC IMPORTED)
  set_target_properties(splitpoint::static PROPERTIES
    IMPORTED_LOCATION "${_splitpoint_prefix}/lib/libsplitpoint.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_splitpoint_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

unset(_splitpoint_prefix)
