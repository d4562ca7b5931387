# MPI where it works.  The compiler wrapper is tried first: FindMPI ends the configuration with an error where the wrapper
# names folders that do not exist, as Debian's openmpi-bin does without libopenmpi-dev.
find_program(PHAZE_MPICC NAMES ${MPI_C_COMPILER} mpicc)
mark_as_advanced(PHAZE_MPICC)
set(mpi_fails 0)
if(PHAZE_MPICC)
  file(WRITE ${PROJECT_BINARY_DIR}/mpi.c "#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n")
  execute_process(COMMAND ${PHAZE_MPICC} mpi.c -o mpi WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    RESULT_VARIABLE mpi_fails OUTPUT_QUIET ERROR_QUIET)
endif()
if(mpi_fails)
  message(STATUS "MPI is not used: ${PHAZE_MPICC} cannot compile a program (libopenmpi-dev has the headers of Open MPI)")
else()
  find_package(MPI QUIET COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "MPI is not used: it was not found")
  endif()
endif()
