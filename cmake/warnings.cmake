# Flags of every target: warnings, sanitizers, reproducible paths.
add_library(phaze_flags INTERFACE)
target_compile_options(phaze_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wformat=2 -Wundef
  -Wvla -Wcast-qual -Wstrict-prototypes -Wmissing-prototypes -Wnull-dereference
  -fno-fast-math -ffp-contract=off -fvisibility=hidden
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  target_compile_options(phaze_flags INTERFACE -Werror=clobbered) # of the borders of calls (src/core/call.h)
endif()
target_compile_definitions(phaze_flags INTERFACE _POSIX_C_SOURCE=200809L)
if(PHAZE_WERROR)
  target_compile_options(phaze_flags INTERFACE -Werror)
endif()
if(PHAZE_SANITIZE)
  target_compile_options(phaze_flags INTERFACE -fsanitize=${PHAZE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(phaze_flags INTERFACE -fsanitize=${PHAZE_SANITIZE})
endif()
if(PHAZE_TIDY)
  set(CMAKE_C_CLANG_TIDY clang-tidy --quiet --warnings-as-errors=*)
endif()
