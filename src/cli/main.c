/* The program phaze: sets the allocator and runs the command line (dispatch.c). */
#include "cli/command.h"
#include "core/alloc.h"

int main(int argc, char **argv) {
  struct pz_error err = {0};
  if (pz_alloc_use(NULL, &err) != PZ_OK) return (int)pz_command_fail(&err);
  return pz_command_main(argc, argv);
}
