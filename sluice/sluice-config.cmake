# find_package(sluice) makes the target sluice::sluice. What it is linked with is said once, in sluice.pc beside this folder.
include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
get_filename_component(sluice_library_folder "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(sluice_kept_path "$ENV{PKG_CONFIG_PATH}")
set(ENV{PKG_CONFIG_PATH} "${sluice_library_folder}/pkgconfig:${sluice_kept_path}")
pkg_check_modules(sluice_pc REQUIRED QUIET sluice)
set(ENV{PKG_CONFIG_PATH} "${sluice_kept_path}")

# The flags as they are: their order counts for static libraries, and PkgConfig's own target takes paths of libraries out of it.
if(NOT TARGET sluice::sluice)
  add_library(sluice::sluice INTERFACE IMPORTED)
  set_target_properties(sluice::sluice PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${sluice_pc_INCLUDE_DIRS}"
    INTERFACE_COMPILE_OPTIONS "${sluice_pc_CFLAGS_OTHER}"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_LIBRARIES "${sluice_pc_LDFLAGS}")
endif()
