/*
 * What the engines' plugins share: settings, topics made from a message, headers, and one log line per trouble.
 *
 * plugin.configuration is `key = value; key = value`, or the path of a file with a setting per line, which begins with a slash.
 * Empty lines and lines that begin with # are skipped.
 * The registration token and `extra` are never read here, so they can't be published.
 */
#ifndef UPSTREAM_ENGINE_H
#define UPSTREAM_ENGINE_H

/* Include this file first. */
#define _GNU_SOURCE

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "upstream_plugin.h"

/* Debian's certificate authorities; ca_file names others. */
#define ENGINE_CA_FILE "/etc/ssl/certs/ca-certificates.crt"
/* The longest header value in bytes, as in webhooks. */
#define ENGINE_HEADER_LIMIT 2048
/* The most headers a message gets. */
#define ENGINE_HEADERS 10
#define ENGINE_SECRET_SIZE 4096
/* The longest topic, subject or routing key of any engine, with a NUL. */
#define ENGINE_NAME_SIZE 256

/* The settings of every engine; an engine's own follow. */
enum { TLS, CA_FILE, CERTIFICATE_FILE, KEY_FILE, USER, PASSWORD_FILE, TIMEOUT, ENGINE_SETTINGS };
#define ENGINE_SETTINGS_LIST \
    [TLS] = {"tls", "on", NULL}, [CA_FILE] = {"ca_file", ENGINE_CA_FILE, NULL}, \
    [CERTIFICATE_FILE] = {"certificate_file", "", NULL}, [KEY_FILE] = {"key_file", "", NULL}, [USER] = {"user", "", NULL}, \
    [PASSWORD_FILE] = {"password_file", "", NULL}, [TIMEOUT] = {"timeout", "10s", NULL}

struct engine_setting {
    const char *name;
    const char *fallback; /* NULL: the key is required */
    char *value;          /* set by engine_configure */
};

/* The header values point into the message, or to `time`. */
struct engine_header {
    const char *name;
    upstream_text value;
};
struct engine_headers {
    struct engine_header items[ENGINE_HEADERS];
    size_t count;
    char time[48];
};

static inline bool engine_fail(char *error, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool engine_fail(char *error, size_t error_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return false;
}

/* Milliseconds of a clock that never jumps. */
static inline int64_t engine_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void engine_sleep(int64_t milliseconds)
{
    const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (milliseconds > 0) nanosleep(&pause, NULL);
}

/* Writes a trouble to the worker's log, once until the trouble changes or ends. `kind` tells troubles apart whose texts vary. */
static inline void engine_report(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void engine_report(const char *kind, const char *format, ...)
{
    static char last[128];
    if (strncmp(last, kind, sizeof last - 1) == 0) return;
    snprintf(last, sizeof last, "%s", kind);
    if (kind[0] == 0) {
        fprintf(stderr, "works again\n");
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* The trouble, if there was one, is over. */
static inline void engine_recovered(void)
{
    engine_report("", "%s", "");
}

static inline char *engine_trim(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) length--;
    text[length] = 0;
    return text;
}

/* Appends "; the keys are a, b" to an error; returns false. */
static inline bool engine_known(
    const struct engine_setting *settings, size_t count, char *error, size_t error_size)
{
    size_t used = strlen(error);
    for (size_t i = 0; i < count && used < error_size; i++) {
        used += (size_t)snprintf(error + used, error_size - used, "%s%s", i == 0 ? "; the keys are " : ", ", settings[i].name);
    }
    return false;
}

static inline bool engine_set(
    struct engine_setting *settings, size_t count, size_t number, char *line, char *error, size_t error_size)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) return engine_fail(error, error_size, "setting %zu of the configuration is no 'key = value'", number);
    *equals = 0;
    const char *name = engine_trim(line), *value = engine_trim(equals + 1);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].name, name) != 0) continue;
        if (settings[i].value != NULL) return engine_fail(error, error_size, "key '%s' appears twice", name);
        settings[i].value = strdup(value);
        return settings[i].value != NULL || engine_fail(error, error_size, "out of memory");
    }
    engine_fail(error, error_size, "unknown key '%.60s'", name);
    return engine_known(settings, count, error, error_size);
}

/* A copy of the settings' text; the caller frees it. */
static inline char *engine_read(const char *configuration, char *error, size_t error_size)
{
    char *text = NULL;
    size_t size = 0;
    if (configuration[0] != '/') return strdup(configuration);
    FILE *file = fopen(configuration, "r");
    if (file == NULL || getdelim(&text, &size, 0, file) < 0) {
        /* At the end of an empty file nothing is written to the text, not even a NUL. */
        const bool is_empty = file != NULL && feof(file);
        if (!is_empty) engine_fail(error, error_size, "cannot read '%s': %s", configuration, strerror(errno));
        free(text);
        text = is_empty ? strdup("") : NULL;
    }
    if (file != NULL) fclose(file);
    return text;
}

/* Reads all settings, or writes what is wrong. An error quotes no value. */
static inline bool engine_configure(
    struct engine_setting *settings, size_t count, const char *configuration, char *error, size_t error_size)
{
    engine_fail(error, error_size, "out of memory");
    const char *const ends = configuration[0] == '/' ? "\n" : "\n;";
    char *copy = engine_read(configuration, error, error_size), *rest = copy;
    bool is_valid = copy != NULL;
    for (size_t i = 0; i < count; i++) {
        free(settings[i].value);
        settings[i].value = NULL;
    }
    for (size_t number = 1; is_valid && rest != NULL; number++) {
        char *end = strpbrk(rest, ends), *line = rest;
        if (end != NULL) *end = 0;
        rest = end == NULL ? NULL : end + 1;
        line = engine_trim(line);
        if (line[0] != 0 && line[0] != '#') is_valid = engine_set(settings, count, number, line, error, error_size);
    }
    free(copy);
    for (size_t i = 0; is_valid && i < count; i++) {
        if (settings[i].value == NULL && settings[i].fallback != NULL) settings[i].value = strdup(settings[i].fallback);
        if (settings[i].value != NULL && (settings[i].value[0] != 0 || settings[i].fallback != NULL)) continue;
        engine_fail(error, error_size, "key '%s' is missing", settings[i].name);
        is_valid = engine_known(settings, count, error, error_size);
    }
    return is_valid;
}

static inline bool engine_flag(const struct engine_setting *setting, bool *flag, char *error, size_t error_size)
{
    *flag = strcmp(setting->value, "on") == 0;
    if (*flag || strcmp(setting->value, "off") == 0) return true;
    return engine_fail(error, error_size, "%s must be on or off", setting->name);
}

/* A time such as 10s, in milliseconds. */
static inline bool engine_seconds(const struct engine_setting *setting, int64_t *milliseconds, char *error, size_t error_size)
{
    char *end;
    const long seconds = strtol(setting->value, &end, 10);
    *milliseconds = (int64_t)seconds * 1000;
    if (end != setting->value && (*end == 0 || strcmp(end, "s") == 0) && seconds >= 1 && seconds <= 600) return true;
    return engine_fail(error, error_size, "%s must be 1s to 600s, and less than the handler's timeout", setting->name);
}

/* Files of the settings must be readable; empty values name none. */
static inline bool engine_check_file(const struct engine_setting *setting, char *error, size_t error_size)
{
    if (setting->value[0] == 0 || access(setting->value, R_OK) == 0) return true;
    return engine_fail(error, error_size, "cannot read %s '%s': %s", setting->name, setting->value, strerror(errno));
}

/* Reads the first line of the file. It is read again for each connection, so that the secret can be replaced. */
static inline bool engine_read_secret(
    const struct engine_setting *setting, char secret[ENGINE_SECRET_SIZE], char *error, size_t error_size)
{
    FILE *file = fopen(setting->value, "r");
    if (file == NULL) {
        return engine_fail(error, error_size, "cannot read %s '%s': %s", setting->name, setting->value, strerror(errno));
    }
    setvbuf(file, NULL, _IONBF, 0);
    const bool is_read = fgets(secret, ENGINE_SECRET_SIZE, file) != NULL;
    fclose(file);
    if (is_read) secret[strcspn(secret, "\r\n")] = 0;
    if (is_read && secret[0] != 0 && strlen(secret) < ENGINE_SECRET_SIZE - 1) return true;
    return engine_fail(error, error_size, "%s '%s' is empty or too long", setting->name, setting->value);
}

static inline bool engine_is_plain(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '-' ||
        byte == '_' || byte == '.';
}

/* Checks a template such as upstream.{category}. A device chooses the category: with text before it, it reaches no other names. */
static inline bool engine_check_template(const struct engine_setting *setting, char *error, size_t error_size)
{
    const char *rest = setting->value;
    if (strncmp(rest, "{category}", 10) == 0) {
        return engine_fail(error, error_size, "%s must not begin with {category}: devices choose it", setting->name);
    }
    const size_t length = strlen(rest);
    if (rest[0] == '.' || rest[length - 1] == '.' || strstr(rest, "..") != NULL) {
        return engine_fail(error, error_size, "%s has an empty word: two dots, or one at an end", setting->name);
    }
    while (*rest != 0) {
        if (strncmp(rest, "{category}", 10) == 0) rest += 10;
        else if (strncmp(rest, "{sender}", 8) == 0) rest += 8;
        else if (engine_is_plain(*rest)) rest++;
        else {
            return engine_fail(
                error, error_size, "%s may hold letters, digits, '-', '_', '.', {category} and {sender}", setting->name);
        }
    }
    return true;
}

/* Whether TLS is on, and the time limit of a call in milliseconds; set by engine_open. */
static bool has_tls;
static int64_t timeout;

/* Reads and checks all settings; `name` is the template's. */
static inline bool engine_open(
    struct engine_setting *settings, size_t count, size_t name, const char *configuration, char *error, size_t error_size)
{
    char secret[ENGINE_SECRET_SIZE];
    if (!engine_configure(settings, count, configuration, error, error_size)) return false;
    const bool has_user = settings[USER].value[0] != 0;
    if (has_user != (settings[PASSWORD_FILE].value[0] != 0)) {
        return engine_fail(error, error_size, "user and password_file go together");
    }
    if ((settings[CERTIFICATE_FILE].value[0] != 0) != (settings[KEY_FILE].value[0] != 0)) {
        return engine_fail(error, error_size, "certificate_file and key_file go together");
    }
    const bool is_valid = engine_check_template(&settings[name], error, error_size) &&
        engine_flag(&settings[TLS], &has_tls, error, error_size) &&
        engine_seconds(&settings[TIMEOUT], &timeout, error, error_size) &&
        (!has_tls || engine_check_file(&settings[CA_FILE], error, error_size)) &&
        engine_check_file(&settings[CERTIFICATE_FILE], error, error_size) &&
        engine_check_file(&settings[KEY_FILE], error, error_size) &&
        (!has_user || engine_read_secret(&settings[PASSWORD_FILE], secret, error, error_size));
    explicit_bzero(secret, sizeof secret);
    return is_valid;
}

static inline bool engine_has_category(const struct engine_setting *setting)
{
    return strstr(setting->value, "{category}") != NULL;
}

/*
 * Makes the name for a message, at most `limit` bytes. {sender} is one word: bytes that aren't letters, digits, '-' or '_' become
 * '_'. A category with other bytes than letters, digits, '-', '_' and '.', or with an empty word, is refused, so that different
 * categories never share a name by accident, and none holds a wildcard. Writes the reason if it returns false.
 */
static inline bool engine_fill(
    const struct engine_setting *setting, const upstream_message *message, size_t limit, char name[ENGINE_NAME_SIZE],
    char *reason, size_t reason_size)
{
    const upstream_text category = message->category, sender = message->sender_id;
    size_t used = 0;
    for (const char *rest = setting->value; *rest != 0;) {
        const bool is_category = strncmp(rest, "{category}", 10) == 0, is_sender = strncmp(rest, "{sender}", 8) == 0;
        const upstream_text text = is_category ? category : is_sender ? sender : (upstream_text){rest, 1};
        rest += is_category ? 10 : is_sender ? 8 : 1;
        if (is_category && text.length == 0) return engine_fail(reason, reason_size, "the category is empty");
        for (size_t i = 0; i < text.length; i++) {
            char byte = text.bytes[i];
            if (is_sender && (!engine_is_plain(byte) || byte == '.')) byte = '_';
            const bool is_word_empty =
                is_category && byte == '.' && (i == 0 || i + 1 == text.length || text.bytes[i - 1] == '.');
            if (!engine_is_plain(byte) || is_word_empty) {
                return engine_fail(reason, reason_size, "the category can't be part of the %s", setting->name);
            }
            if (used == limit) return engine_fail(reason, reason_size, "the %s is longer than %zu bytes", setting->name, limit);
            name[used++] = byte;
        }
    }
    name[used] = 0;
    return true;
}

/* Leaves out values that are absent, hold control characters or are too long: protocols with header lines would break. */
static inline void engine_add_header(struct engine_headers *headers, const char *name, upstream_text value)
{
    if (value.bytes == NULL || value.length > ENGINE_HEADER_LIMIT) return;
    for (size_t i = 0; i < value.length; i++) {
        const unsigned char byte = (unsigned char)value.bytes[i];
        if (byte < 0x20 || byte == 0x7f) return;
    }
    headers->items[headers->count++] = (struct engine_header){name, value};
}

static inline void engine_fill_headers(struct engine_headers *headers, const upstream_message *message)
{
    int64_t microseconds = message->received_at % 1000000;
    if (microseconds < 0) microseconds += 1000000;
    const time_t seconds = (time_t)((message->received_at - microseconds) / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(headers->time, sizeof headers->time, "%Y-%m-%dT%H:%M:%S", &parts);
    length += (size_t)snprintf(headers->time + length, sizeof headers->time - length, ".%06dZ", (int)microseconds);
    headers->count = 0;
    engine_add_header(headers, "message_key", message->message_key);
    engine_add_header(headers, "message_id", message->message_id);
    engine_add_header(headers, "category", message->category);
    engine_add_header(headers, "sender_id", message->sender_id);
    engine_add_header(headers, "device_key", message->device_key);
    engine_add_header(headers, "received_at", (upstream_text){headers->time, length});
    engine_add_header(headers, "message_type", message->message_type);
    engine_add_header(headers, "replay_id", message->replay_id);
    if (!UPSTREAM_HAS(message, tracestate)) return;
    engine_add_header(headers, "traceparent", message->traceparent);
    engine_add_header(headers, "tracestate", message->tracestate);
}

#endif
