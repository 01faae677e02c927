# find_package(snowskin): snowskin::snowskin is the shared library, snowskin::static the other.
include(${CMAKE_CURRENT_LIST_DIR}/snowskinTargets.cmake)
