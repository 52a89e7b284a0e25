/*
 * A handler in C: takes orders of the form {"item":"tea","quantity":2} and appends them to a file.
 *
 * The configuration (plugin.configuration) names the file. An order may come more than once; its key stands in each line, so
 * that who reads the file can drop what it has seen.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upstream_plugin.h"

static FILE *file;

UPSTREAM_PLUGIN_EXPORT uint32_t upstream_plugin_abi(void)
{
    return UPSTREAM_PLUGIN_ABI;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_open(const char *configuration, char *error, size_t error_size)
{
    file = fopen(configuration, "a");
    if (file != NULL) return 0;
    strncpy(error, strerror(errno), error_size - 1);
    error[error_size - 1] = 0;
    return 1;
}

/* Whether the JSON text names a member; a real plugin brings a JSON parser. */
static int has_member(const upstream_text *json, const char *name)
{
    return json->bytes != NULL && strstr(json->bytes, name) != NULL;
}

UPSTREAM_PLUGIN_EXPORT int upstream_plugin_handle(
    const upstream_message *const *messages, size_t count, upstream_outcome *const *outcomes)
{
    size_t i;
    for (i = 0; i < count; i++) {
        const upstream_message *message = messages[i];
        if (!has_member(&message->data, "\"item\"")) {
            upstream_reject(outcomes[i], "an order needs an item");
            continue;
        }
        fprintf(file, "%s ", message->message_key.bytes);
        fwrite(message->data.bytes, 1, message->data.length, file);
        fputc('\n', file);
    }
    /* One write for all of them: only then are they done. */
    if (fflush(file) != 0) return 1;
    for (i = 0; i < count; i++) {
        if (outcomes[i]->kind == UPSTREAM_UNSET) upstream_done(outcomes[i]);
    }
    return 0;
}

UPSTREAM_PLUGIN_EXPORT void upstream_plugin_close(void)
{
    fclose(file);
}
