# find_package(kvbudget) gives kvbudget::kvbudget; find_package(kvbudget COMPONENTS io) gives kvbudget::io as well.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(kvbudget_config_dir ${CMAKE_INSTALL_DATADIR}/cmake/kvbudget)
install(DIRECTORY include/kvbudget DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS kvbudget EXPORT kvbudgetTargets)
install(EXPORT kvbudgetTargets NAMESPACE kvbudget:: DESTINATION ${kvbudget_config_dir})
write_basic_package_version_file(kvbudgetConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/kvbudgetConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/kvbudgetConfigVersion.cmake DESTINATION ${kvbudget_config_dir})
