#ifndef UPSTREAM_CLIBPQ_SHIM_H
#define UPSTREAM_CLIBPQ_SHIM_H

#include <libpq-fe.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The field codes are character literals, which Swift does not import. */
static const int upstream_diag_sqlstate = PG_DIAG_SQLSTATE;
static const int upstream_diag_severity = PG_DIAG_SEVERITY_NONLOCALIZED;
static const int upstream_diag_message = PG_DIAG_MESSAGE_PRIMARY;
static const int upstream_diag_table = PG_DIAG_TABLE_NAME;
static const int upstream_diag_constraint = PG_DIAG_CONSTRAINT_NAME;
static const int upstream_diag_function = PG_DIAG_SOURCE_FUNCTION;

/* prctl is variadic, and the GNU name for this is hidden from Swift. */
static inline void upstream_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

#endif
