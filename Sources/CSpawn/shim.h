#ifndef UPSTREAM_CSPAWN_SHIM_H
#define UPSTREAM_CSPAWN_SHIM_H

#include <spawn.h>

/* glibc declares both only with _GNU_SOURCE, which Swift's Glibc module is built without; declared here as they are
   documented. posix_spawn_file_actions_addclosefrom_np needs glibc 2.34. */
extern int pipe2(int ends[2], int flags);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);

#endif
