/* Fuzzes the JSON parser. An accepted value must be written and read back as the same value. */
#include "tests/support/everything.h"

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_json: %s\n", what);
        abort();
    }
}

/* Checks names, counts and terminating zero bytes. */
static void require_whole(const eitp_json *value) {
    size_t count = 0;
    require((value->kind == EITP_JSON_STRING || value->kind == EITP_JSON_NUMBER) == (value->text != NULL),
            "a text of another kind of value");
    require(!value->text || value->text[value->text_size] == 0, "a text is not zero-terminated");
    for (const eitp_json *child = value->first_child; child; child = child->next, count++) {
        require((child->name != NULL) == (value->kind == EITP_JSON_OBJECT), "a name outside an object");
        require_whole(child);
    }
    require(count == value->count, "wrong number of children");
}

static void require_same(const eitp_json *a, const eitp_json *b) {
    const eitp_json *left = a->first_child, *right = b->first_child;
    const int is_text = a->kind == EITP_JSON_STRING;
    require(a->kind == b->kind && a->boolean == b->boolean && a->count == b->count && a->name_size == b->name_size &&
                (!is_text || a->text_size == b->text_size),
            "a value reads back differently");
    /* 2e3 is written as 2000, an integer. */
    require(!a->is_integer || (b->is_integer && a->integer == b->integer), "an integer reads back differently");
    require(!memcmp(&a->number, &b->number, sizeof a->number), "a number reads back differently");
    require(!is_text || !memcmp(a->text, b->text, a->text_size), "a string reads back differently");
    require(!a->name || !memcmp(a->name, b->name, a->name_size), "a name reads back differently");
    for (; left && right; left = left->next, right = right->next)
        require_same(left, right);
    require(!left && !right, "children read back differently");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL, *again = NULL;
    eitp__buffer buffer;
    eitp_error error;
    eitp_status status = eitp_json_parse(&host, (const char *)data, size, &document, &error);
    if (status) {
        require(status == EITP_ERROR_FORMAT && !document && error.status == status, "a failure without a format error");
        return 0;
    }
    eitp__buffer_init(&buffer, &host);
    require_whole(eitp_json_root(document));
    eitp__json_write_value(&buffer, eitp_json_root(document));
    status = eitp_json_parse(&host, buffer.data, buffer.size, &again, &error);
    require(status == EITP_OK, "written text cannot be read");
    require_same(eitp_json_root(document), eitp_json_root(again));
    eitp_json_release(document);
    eitp_json_release(again);
    eitp__buffer_release(&buffer);
    return 0;
}
