# For CMake: compile with emcc.  Its own toolchain file is looked for beside it; NODE_PATH is where Debian keeps the
# modules of its linker, should another node come first in the path.
set(ENV{NODE_PATH} "/usr/share/nodejs:$ENV{NODE_PATH}")
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
find_program(CMAKE_C_COMPILER emcc REQUIRED)
find_program(CMAKE_AR emar REQUIRED)
find_program(CMAKE_RANLIB emranlib REQUIRED)
