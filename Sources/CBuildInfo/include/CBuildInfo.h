#ifndef UPSTREAM_CBUILDINFO_H
#define UPSTREAM_CBUILDINFO_H

/* The commit that this executable was built from, or an empty text where the build did not say (see Package.swift).

   A function in a file of its own: another commit compiles these few lines anew and links, and nothing else. */
const char *upstream_build_commit(void);

#endif
