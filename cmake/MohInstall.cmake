# cmake --install, and a Debian package by cpack: the program, its configs, scripts, documentation, man page and completion.

include(GNUInstallDirs)

# Both are generated from the texts of --help, so the build machine has to be able to run the program.
set(pages ${PROJECT_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/moh.1 ${pages}/moh
  COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
  COMMAND ${MOH_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/command_pages.py $<TARGET_FILE:moh> --man ${pages}/moh.1
          --bash ${pages}/moh
  DEPENDS moh ${PROJECT_SOURCE_DIR}/scripts/command_pages.py VERBATIM)
add_custom_target(moh_pages ALL DEPENDS ${pages}/moh.1 ${pages}/moh)

install(TARGETS moh)
if(MOH_CPU_KERNELS STREQUAL "native")
  install(CODE "message(NOTICE \"CPU kernels for ${MOH_CPU_ISAS} ${MOH_CPU_MATRIX_ISAS} ${MOH_CPU_GEMM_ISAS} alone; MOH_CPU_KERNELS=all makes them for other processors, too\")")
endif()
install(PROGRAMS scripts/plot_run.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME moh-plot-run)
install(PROGRAMS scripts/plot_heads.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME moh-plot-heads)
install(PROGRAMS scripts/import_tokens.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME moh-import-tokens)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/moh)

# Scripts of several files lie beside the configurations, as in the source tree (scripts/places.py); their commands are links to them.
set(scripts_folder ${CMAKE_INSTALL_DATADIR}/moh/scripts)
foreach(module metric_targets model_settings output_scores places resolved_config seeded_runs)
  install(FILES scripts/${module}.py DESTINATION ${scripts_folder})
endforeach()
install(DIRECTORY scripts/lm_harness scripts/parquet_import scripts/reproduction DESTINATION ${scripts_folder} PATTERN __pycache__ EXCLUDE)
foreach(script ablate export_metrics from_parquet lm_eval quality recovery reproduce scaling sweep)
  install(PROGRAMS scripts/${script}.py DESTINATION ${scripts_folder})
  string(REPLACE "_" "-" command moh-${script})
  file(RELATIVE_PATH target /${CMAKE_INSTALL_BINDIR} /${scripts_folder}/${script}.py)
  install(CODE "file(CREATE_LINK \"${target}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${command}\" SYMBOLIC)")
endforeach()
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${pages}/moh.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/moh DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};moh;Unspecified;/") # without the component library
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME moh)
set(CPACK_PACKAGE_CONTACT "The moh authors <moh@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Training of transformers with Mixture-of-Head attention")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # Depends: the linked libraries, with the versions of the build machine
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-matplotlib")
include(CPack)
