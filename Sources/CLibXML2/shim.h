#ifndef UPSTREAM_CLIBXML2_SHIM_H
#define UPSTREAM_CLIBXML2_SHIM_H

/* Debian builds libxml2 with ICU, and <libxml/encoding.h> then includes <unicode/...>, whose types clash with the
   ICU module inside Foundation wherever one compile sees both ("'UErrorCode' has different definitions in different
   modules", on clean builds only). Only trailing fields of an encoder struct that Swift never touches depend on it. */
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

/* The version of the loaded library, such as "20914" for 2.9.14; a mutable global, which Swift 6 refuses. */
static inline const char *upstream_libxml2_version(void) { return xmlParserVersion; }

#endif
