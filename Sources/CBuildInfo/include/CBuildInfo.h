#ifndef UPSTREAM_CBUILDINFO_H
#define UPSTREAM_CBUILDINFO_H

/* The commit built from, or an empty text if the build did not say (see Package.swift). In a file of its own, so
   that a new commit recompiles only these few lines. */
const char *upstream_build_commit(void);

#endif
