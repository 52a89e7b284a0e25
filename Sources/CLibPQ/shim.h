#ifndef UPSTREAM_CLIBPQ_SHIM_H
#define UPSTREAM_CLIBPQ_SHIM_H

#include <libpq-fe.h>

#endif
