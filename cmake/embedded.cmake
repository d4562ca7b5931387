# Preset files become part of the library.
function(phaze_embed folder symbol header)
  file(GLOB inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.json)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/src/${folder} -DSYMBOL=${symbol}
      -DOUT=${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c -DHEADER=${header} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${inputs} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
endfunction()

# So do measurements: tables of runs, and those of an H200 that tests use too.
function(phaze_embed_files symbol header)
  list(JOIN ARGN "," list)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c
    COMMAND ${CMAKE_COMMAND} -DFILES=${list} -DSYMBOL=${symbol} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c
      -DHEADER=${header} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
endfunction()

# Of the library in every build.
phaze_embed(chip/presets/chips pz_embedded_chips chip/embedded.h)
phaze_embed(chip/presets/clusters pz_embedded_clusters chip/embedded.h)
phaze_embed_files(pz_embedded_expected step/expected_error.h ${PROJECT_SOURCE_DIR}/src/step/expected_error.csv)
