/*
 * Bytes as a tokenizer.json, and bytes as a text. The first byte says which; for a text the second gives the size of
 * the chunks that the streaming encoder gets.
 */
#include "tests/everything.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_TEXT_LIMIT = 1 << 16 };

static void require(int condition) {
    if (!condition)
        abort();
}

typedef struct id_list {
    int32_t ids[4 * FUZZ_TEXT_LIMIT];
    size_t count;
} id_list;

static eitp_status collect(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    id_list *list = (id_list *)user;
    (void)error;
    require(count > 0 && list->count + count <= EITP__COUNT(list->ids));
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return EITP_OK;
}

static void encode_both_ways(const eitp_tokenizer *tokenizer, const char *text, size_t size, size_t chunk) {
    static id_list whole, pieces;
    static char decoded[16 * FUZZ_TEXT_LIMIT];
    eitp_encoder *encoder;
    size_t decoded_size;
    require(eitp_tokenizer_encode(tokenizer, text, size, whole.ids, 4 * size, &whole.count, NULL) == EITP_OK);
    require(whole.count <= 4 * size);
    pieces.count = 0;
    require(eitp_encoder_create(tokenizer, collect, &pieces, &encoder, NULL) == EITP_OK);
    for (size_t i = 0; i < size; i += chunk)
        require(eitp_encoder_add(encoder, text + i, chunk < size - i ? chunk : size - i, NULL) == EITP_OK);
    require(eitp_encoder_finish(encoder, NULL) == EITP_OK);
    eitp_encoder_destroy(encoder);
    require(pieces.count == whole.count);
    require(!whole.count || !memcmp(pieces.ids, whole.ids, whole.count * sizeof *whole.ids));
    require(eitp_tokenizer_decode(tokenizer, whole.ids, whole.count, decoded, sizeof decoded, &decoded_size, NULL) ==
            EITP_OK);
    require(decoded_size <= sizeof decoded);
    if (tokenizer->add_prefix_space)
        return;
    require(eitp__utf8_valid_prefix((const unsigned char *)decoded, decoded_size) == decoded_size);
    if (eitp__utf8_valid_prefix((const unsigned char *)text, size) == size)
        require(decoded_size == size && (!size || !memcmp(decoded, text, size)));
}

typedef struct one_text {
    const char *text;
    size_t size;
} one_text;

static eitp_status read_once(void *user, const char **text, size_t *size, eitp_error *error) {
    one_text *source = (one_text *)user;
    (void)error;
    *text = source->text;
    *size = source->size;
    source->text = NULL;
    return EITP_OK;
}

/* Learns from the text and encodes it with what was learnt. */
static void use_text(const char *text, size_t size, size_t chunk) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = EITP__ZERO;
    eitp_text_source source;
    eitp_tokenizer *tokenizer;
    one_text once;
    once.text = text;
    once.size = size;
    source.user = &once;
    source.read = read_once;
    config.vocabulary_size = 300;
    require(eitp_tokenizer_train(&host, &config, &source, &tokenizer, NULL) == EITP_OK);
    encode_both_ways(tokenizer, text, size, chunk);
    eitp_tokenizer_destroy(tokenizer);
}

static void use_json(const char *json, size_t size) {
    static const char text[] = "it's <|endoftext|>  two\n words\xF0\x9F\x98\x80 \xFF'";
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    if (eitp__tokenizer_parse(&host, json, size, &tokenizer, &error) != EITP_OK) {
        require(!tokenizer && strlen(error.message) > 10);
        return;
    }
    require(eitp_tokenizer_size(tokenizer) >= 256);
    encode_both_ways(tokenizer, text, sizeof text, 3);
    eitp_tokenizer_destroy(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    if (data[0] == '{') /* so that a file is a seed as it stands */
        use_json((const char *)data, size);
    else if (size <= FUZZ_TEXT_LIMIT)
        use_text((const char *)data + 2, size - 2, (size_t)data[1] % 70 + 1);
    return 0;
}
