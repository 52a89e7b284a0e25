#ifndef UPSTREAM_CGLIBC_SHIM_H
#define UPSTREAM_CGLIBC_SHIM_H

/* What Swift's own Glibc module leaves out. */

#include <malloc.h>
#include <spawn.h>

/* glibc declares these two only with _GNU_SOURCE, which Swift's Glibc module is built without; declared here as they are
   documented. posix_spawn_file_actions_addclosefrom_np needs glibc 2.34. */
extern int pipe2(int ends[2], int flags);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);

#endif
