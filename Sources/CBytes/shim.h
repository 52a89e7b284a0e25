#ifndef UPSTREAM_CBYTES_SHIM_H
#define UPSTREAM_CBYTES_SHIM_H

/* Text searches, 16 bytes at a time. In C, because Swift (6.3) compiles a comparison of its SIMD types to a loop
   over their bytes. Each stops when fewer than 16 bytes are left and returns how far it came. */

#include <stdint.h>
#include <string.h>

typedef int8_t upstream_block __attribute__((vector_size(16)));

static inline upstream_block upstream_load(const uint8_t *bytes) {
    upstream_block block;
    memcpy(&block, bytes, sizeof block);
    return block;
}

/* The index of the first byte for which the comparison holds; 16 if there is none. */
static inline intptr_t upstream_first(upstream_block holds) {
    uint64_t halves[2];
    memcpy(halves, &holds, sizeof holds);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    halves[0] = __builtin_bswap64(halves[0]);
    halves[1] = __builtin_bswap64(halves[1]);
#endif
    if (halves[0] != 0) return __builtin_ctzll(halves[0]) / 8;
    return halves[1] != 0 ? 8 + __builtin_ctzll(halves[1]) / 8 : 16;
}

/* Bytes below a space when signed: controls and all non-ASCII. */
#define UPSTREAM_UNUSUAL(block) ((block) < 0x20)

/* Counts the bytes of JSON before a quote, a backslash, a control character or a non-ASCII byte. */
static inline intptr_t upstream_plain_json(const uint8_t *bytes, intptr_t count) {
    intptr_t at = 0;
    for (; at + 16 <= count; at += 16) {
        upstream_block block = upstream_load(bytes + at);
        intptr_t found = upstream_first(UPSTREAM_UNUSUAL(block) | (block == '"') | (block == '\\'));
        if (found < 16) return at + found;
    }
    return at;
}

/* Counts the bytes that an ack holds unescaped: those before one of < > & ', DEL, a control character or a non-ASCII
   byte. */
static inline intptr_t upstream_plain_ack(const uint8_t *bytes, intptr_t count) {
    intptr_t at = 0;
    for (; at + 16 <= count; at += 16) {
        upstream_block block = upstream_load(bytes + at);
        /* < and > differ in one bit, so do & and '. */
        intptr_t found = upstream_first(
            UPSTREAM_UNUSUAL(block) | (block == 0x7f) | ((block | 2) == '>') | ((block | 1) == '\'')
        );
        if (found < 16) return at + found;
    }
    return at;
}

/* The length of the UTF-8 character (RFC 3629) at the start of at least one byte; 0 if they begin none outside ASCII, -1
   if they end inside one. */
static inline intptr_t upstream_utf8_length(const uint8_t *bytes, intptr_t count) {
    uint8_t lead = bytes[0];
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    intptr_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (count > 1 && (bytes[1] < low || bytes[1] > high)) return 0;
    for (intptr_t at = 2; at < length && at < count; at++) {
        if ((bytes[at] & 0xc0) != 0x80) return 0;
    }
    return count < length ? -1 : length;
}

/* Copies bytes of XML up to one of < > &, a control character or a non-ASCII byte. Reads and writes whole blocks
   within `room`, also beyond `count`. */
static inline intptr_t upstream_copy_plain_xml(const uint8_t *from, uint8_t *to, intptr_t count, intptr_t room) {
    intptr_t at = 0;
    for (; at < count && at + 16 <= room; at += 16) {
        upstream_block block = upstream_load(from + at);
        memcpy(to + at, &block, sizeof block);
        intptr_t found = upstream_first(UPSTREAM_UNUSUAL(block) | ((block | 2) == '>') | (block == '&'));
        if (found < 16) {
            at += found;
            break;
        }
    }
    return at < count ? at : count;
}

#endif
