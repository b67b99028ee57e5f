/* JSON (RFC 8259) as a tree, for programs that read the files of a run, such as run.json and metrics.jsonl. */
#ifndef EITP_JSON_TREE_H
#define EITP_JSON_TREE_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

typedef enum eitp_json_kind {
    EITP_JSON_NULL = 0,
    EITP_JSON_BOOLEAN = 1,
    EITP_JSON_NUMBER = 2,
    EITP_JSON_STRING = 3,
    EITP_JSON_ARRAY = 4,
    EITP_JSON_OBJECT = 5
} eitp_json_kind;

/* A value, owned by its document. The children of an array or object are a linked list: first_child, then next. */
typedef struct eitp_json {
    eitp_json_kind kind;
    int boolean;
    int is_integer; /* the number has neither fraction nor exponent and fits `integer` */
    int64_t integer;
    double number;
    const char *text; /* of a string: UTF-8, unescaped, may contain zero bytes; of a number: as written.
                         Zero-terminated; NULL for other kinds of values */
    size_t text_size;
    const char *name; /* of a member of an object, else NULL */
    size_t name_size;
    size_t line;  /* of its first character, counted from 1 */
    size_t begin; /* offset of its first byte in the parsed text */
    size_t count; /* number of children */
    struct eitp_json *first_child;
    struct eitp_json *next;
} eitp_json;

typedef struct eitp_json_document eitp_json_document;

/*
 * Parses `size` bytes, which are copied, into a document that the caller releases. Nesting deeper than 64, invalid
 * UTF-8, unpaired surrogates, duplicate names and text after the value are EITP_ERROR_FORMAT, with line and column, in
 * characters. Memory is bounded by a small multiple of `size`.
 */
EITP_API eitp_status eitp_json_parse(const eitp_host *host, const char *data, size_t size,
                                     eitp_json_document **document, eitp_error *error);

/*
 * Parses a file of at most `limit` bytes, such as run.json; messages start with its path. Since the file may contain
 * file names, a lone surrogate from U+DC80 to U+DCFF stands for a byte that is not UTF-8, namely its low byte, as in
 * Python's surrogateescape. Strings of the document may therefore be invalid UTF-8.
 */
EITP_API eitp_status eitp_json_read_file(const eitp_host *host, const char *path, size_t limit,
                                         eitp_json_document **document, eitp_error *error);

EITP_API void eitp_json_release(eitp_json_document *document); /* NULL is harmless */

/* Returns the outermost value; NULL for NULL. */
EITP_API const eitp_json *eitp_json_root(const eitp_json_document *document);

/* Finds a member by name. Returns NULL if it is missing, or if `object` is NULL or another kind of value. */
EITP_API const eitp_json *eitp_json_member(const eitp_json *object, const char *name);

EITP_END_DECLARATIONS

#endif
