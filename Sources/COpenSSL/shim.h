#ifndef UPSTREAM_COPENSSL_SHIM_H
#define UPSTREAM_COPENSSL_SHIM_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Swift imports no function-like macros, variadic functions or constants built with casts. Each function below stands
// for one of these and does nothing else.

// SSL_CTX_set_min_proto_version and SSL_CTX_set_max_proto_version are macros over SSL_CTX_ctrl. 1 on success.
static inline int upstream_ssl_ctx_set_versions(SSL_CTX *ctx, int minimum, int maximum) {
    return SSL_CTX_set_min_proto_version(ctx, minimum) == 1 && SSL_CTX_set_max_proto_version(ctx, maximum) == 1;
}

// SSL_CTX_set_mode is a macro over SSL_CTX_ctrl.
static inline void upstream_ssl_ctx_set_mode(SSL_CTX *ctx, long mode) { SSL_CTX_set_mode(ctx, mode); }

// SSL_CTX_set_session_cache_mode is a macro over SSL_CTX_ctrl.
static inline void upstream_ssl_ctx_set_session_cache_mode(SSL_CTX *ctx, long mode) {
    SSL_CTX_set_session_cache_mode(ctx, mode);
}

// SSL_CTX_add1_chain_cert is a macro over SSL_CTX_ctrl. Takes its own reference. 1 on success.
static inline int upstream_ssl_ctx_add1_chain_cert(SSL_CTX *ctx, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(ctx, certificate);
}

// SSL_set_tlsext_host_name is a macro over SSL_ctrl. Copies the name. 1 on success.
static inline int upstream_ssl_set_sni(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }

// SSL_get_extms_support is a macro over SSL_ctrl. 1 if the master secret is the extended one (RFC 7627).
static inline int upstream_ssl_extended_master_secret(SSL *ssl) { return (int)SSL_get_extms_support(ssl); }

// sk_X509_num and sk_X509_pop are macros. Frees the certificates that the peer has sent, and the chain verified from
// them: each connection would keep them, 3 KB apiece. Both lists are the connection's, which has a reference to each
// member, and another one to the peer's own certificate; both may be null.
static inline void upstream_ssl_forget_chains(SSL *ssl) {
    STACK_OF(X509) *lists[] = {SSL_get_peer_cert_chain(ssl), SSL_get0_verified_chain(ssl)};
    for (int index = 0; index < 2; index++) {
        while (lists[index] != NULL && sk_X509_num(lists[index]) > 0) X509_free(sk_X509_pop(lists[index]));
    }
}

// The number of certificates in these lists.
static inline int upstream_ssl_chain_count(SSL *ssl) {
    STACK_OF(X509) *sent = SSL_get_peer_cert_chain(ssl), *verified = SSL_get0_verified_chain(ssl);
    return (sent == NULL ? 0 : sk_X509_num(sent)) + (verified == NULL ? 0 : sk_X509_num(verified));
}

// The SSL_OP_* constants are built with SSL_OP_BIT(), a cast that Swift does not import.
static const uint64_t upstream_ssl_op_no_compression = SSL_OP_NO_COMPRESSION;
static const uint64_t upstream_ssl_op_no_renegotiation = SSL_OP_NO_RENEGOTIATION;
static const uint64_t upstream_ssl_op_no_ticket = SSL_OP_NO_TICKET;
static const uint64_t upstream_ssl_op_server_preference = SSL_OP_CIPHER_SERVER_PREFERENCE;

// BIO_set_retry_read and BIO_clear_retry_flags are macros.
static inline void upstream_bio_want_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline void upstream_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }

// BIO_get_mem_data is a macro over BIO_ctrl. The bytes stay the BIO's.
static inline long upstream_bio_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

// EVP_EC_gen is a macro over a variadic function. The caller frees the key.
static inline EVP_PKEY *upstream_evp_p256_key(void) { return EVP_EC_gen("P-256"); }

// XN_FLAG_RFC2253 is built with casts. Prints a name with control and non-ASCII bytes escaped.
static inline int upstream_x509_name_print(BIO *out, const X509_NAME *name) {
    return X509_NAME_print_ex(out, name, 0, XN_FLAG_RFC2253);
}

// sk_GENERAL_NAME_num and sk_GENERAL_NAME_value are macros. The name stays the list's.
static inline int upstream_general_name_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }
static inline GENERAL_NAME *upstream_general_name(const GENERAL_NAMES *names, int index) {
    return sk_GENERAL_NAME_value(names, index);
}

// X509V3_set_ctx_nodb is a macro. Makes one extension; the certificate keeps its own copy. 1 on success.
static inline int upstream_x509_add_extension(X509 *issuer, X509 *subject, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, subject, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&ctx);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    if (extension == NULL) {
        return 0;
    }
    int added = X509_add_ext(subject, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

// SHA-256 with a context on the caller's stack. The EVP interface allocates inside every context and dispatches through
// a provider on every call; these are the functions it ends in. Deprecated since 3.0 but present in all of 3.x:
// silenced here, and only here.
#include <openssl/sha.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline int upstream_sha256_init(SHA256_CTX *context) { return SHA256_Init(context); }
static inline int upstream_sha256_update(SHA256_CTX *context, const void *bytes, size_t count) {
    return SHA256_Update(context, bytes, count);
}
static inline int upstream_sha256_final(unsigned char *digest, SHA256_CTX *context) { return SHA256_Final(digest, context); }
#pragma GCC diagnostic pop

#endif
