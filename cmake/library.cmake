# libsnowskin, shared and static: the objects that the public functions need, partially linked into
# one object in which everything that is not public is local.  So the static library too defines
# nothing but snow_*, and both are the same code.
#
# src/client/snowskin.map says what is public (tools/check holds it to the headers).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(map ${CMAKE_SOURCE_DIR}/src/client/snowskin.map)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${map})
file(READ ${map} exported)
string(REGEX MATCHALL " snow_[a-z0-9_]+" exported "${exported}")
string(REGEX REPLACE " (snow_[a-z0-9_]+)" "-u;\\1" roots "${exported}")

add_library(snow_parts STATIC $<TARGET_OBJECTS:snow_base> $<TARGET_OBJECTS:snow_conf>
            $<TARGET_OBJECTS:snow_obs> $<TARGET_OBJECTS:snow_env> $<TARGET_OBJECTS:snow_wire>
            $<TARGET_OBJECTS:snow_rpc> $<TARGET_OBJECTS:snow_transport> $<TARGET_OBJECTS:snow_node>
            $<TARGET_OBJECTS:snow_client> $<TARGET_OBJECTS:snow_env_linux>)
set(object ${CMAKE_BINARY_DIR}/libsnowskin.o)
add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_LINKER} -r -o ${object} ${roots} $<TARGET_FILE:snow_parts>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
    DEPENDS snow_parts ${map} COMMAND_EXPAND_LISTS VERBATIM)
set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)

# What that object needs, and nothing else: --no-undefined and the tests of the static library tell.
set(SNOW_LIBRARY_NEEDS ${ISAL_LIBRARIES} ${PCRE2_LIBRARIES})
set(SNOW_LIBRARY_REQUIRES "libisal, libpcre2-8")

add_library(snowskin_shared SHARED ${object} ${map})
target_link_options(snowskin_shared PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
if(NOT SNOW_SANITIZE)
    target_link_options(snowskin_shared PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(snowskin_shared PRIVATE ${SNOW_LIBRARY_NEEDS} Threads::Threads)
set_target_properties(snowskin_shared PROPERTIES EXPORT_NAME snowskin VERSION ${SNOW_ABI}
                      SOVERSION ${SNOW_ABI} LINK_DEPENDS ${map})

add_library(snowskin_static STATIC ${object})
target_link_libraries(snowskin_static INTERFACE ${SNOW_LIBRARY_NEEDS} -pthread)
set_target_properties(snowskin_static PROPERTIES EXPORT_NAME static)

foreach(library snowskin_shared snowskin_static)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME snowskin LINKER_LANGUAGE C)
    target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:include>)
endforeach()

# ---- installing ---------------------------------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/snowskin)
# From the folder of the .pc files: a prefix may be moved.
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(file snowskin.pc snowskin-static.pc)
    configure_file(${CMAKE_SOURCE_DIR}/cmake/${file}.in ${CMAKE_BINARY_DIR}/${file} @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/snowskinConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/snowskinConfig.cmake
              ${CMAKE_BINARY_DIR}/snowskinConfigVersion.cmake DESTINATION ${package_dir})
install(EXPORT snowskinTargets NAMESPACE snowskin:: DESTINATION ${package_dir})
install(TARGETS snowskin_shared snowskin_static EXPORT snowskinTargets)
install(TARGETS snowskin)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/snowskin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
