#include "CBuildInfo.h"

#ifndef UPSTREAM_COMMIT
#define UPSTREAM_COMMIT ""
#endif

const char *upstream_build_commit(void) { return UPSTREAM_COMMIT; }
