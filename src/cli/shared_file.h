/* Files that are installed beside the program. */
#ifndef PZ_CLI_SHARED_FILE_H
#define PZ_CLI_SHARED_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of share/phaze/NAME of the installation that this program stands in, or of wasm/NAME in the build folder.
 * False: there is none. */
bool pz_shared_file(const char *name, char *path, size_t size);

#endif
