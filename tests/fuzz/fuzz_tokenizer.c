/*
 * Fuzzes tokenizers. An input that starts with '{' is a tokenizer.json. One that starts with '#' is the content of the
 * files next to a tokenizer.json that name special tokens; the second byte selects them. One that starts with '[' is a
 * vocab.txt and the files next to it. Any other input is text; its second byte gives the size of the chunks for the
 * encoder.
 */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_TEXT_LIMIT = 1 << 16, MOST_IDS_OF_A_BYTE = 12 };

static void require(int condition) {
    if (!condition)
        abort();
}

typedef struct id_list {
    int32_t ids[MOST_IDS_OF_A_BYTE * FUZZ_TEXT_LIMIT];
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

/* Encodes text and its first half as a pair, truncated to every small length. */
static void encode_sequences(const eitp_tokenizer *tokenizer, const char *text, size_t size) {
    static int32_t ids[64], segments[64];
    eitp_text first, second;
    first.bytes = second.bytes = text;
    first.size = size < 200 ? size : 200;
    second.size = first.size / 2;
    for (int32_t length = 0; length < 48; length += 5) {
        for (int truncation = 0; truncation < EITP_TRUNCATE_NONE; truncation++) {
            eitp_sequence_config config = eitp_sequence_config_default();
            eitp_sequence_report report;
            config.max_length = length;
            config.truncation = (eitp_truncation)truncation;
            config.truncate_left = length & 1;
            if (eitp_tokenizer_encode_sequence(tokenizer, &first, length % 3 ? &second : NULL, &config, ids, segments,
                                               64, &report, NULL) != EITP_OK)
                continue;
            require(!length || report.count <= (size_t)length);
            for (size_t i = 0; i < report.count && i < 64; i++)
                require(ids[i] >= 0 && ids[i] < eitp_tokenizer_size(tokenizer));
        }
    }
}

/* True if an added token absorbs white space, which is not restored. */
static int takes_space(const eitp_tokenizer *tokenizer) {
    const eitp__vocabulary *vocabulary = &tokenizer->vocabulary;
    for (size_t id = 0; id < vocabulary->count; id++) {
        if (vocabulary->tokens[id].flags & (EITP__TOKEN_TAKES_LEFT | EITP__TOKEN_TAKES_RIGHT))
            return 1;
    }
    return 0;
}

static void encode_both_ways(const eitp_tokenizer *tokenizer, const char *text, size_t size, size_t chunk) {
    static id_list whole, pieces;
    static char decoded[16 * FUZZ_TEXT_LIMIT];
    eitp_encoder *encoder;
    size_t decoded_size;
    require(eitp_tokenizer_encode(tokenizer, text, size, whole.ids, MOST_IDS_OF_A_BYTE * size, &whole.count, NULL) ==
            EITP_OK);
    require(whole.count <= MOST_IDS_OF_A_BYTE * size);
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
    require(decoded_size <= sizeof decoded || tokenizer->model != EITP__MODEL_BPE || tokenizer->bpe.lacks_bytes);
    encode_sequences(tokenizer, text, size);
    if (tokenizer->add_prefix_space || tokenizer->model != EITP__MODEL_BPE || takes_space(tokenizer) ||
        tokenizer->has_normalizer || tokenizer->bpe.lacks_bytes)
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

/* Trains a tokenizer on the text and encodes it. */
static void use_text(const char *text, size_t size, size_t chunk) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
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

/* Decodes all tokens in both orders, including partial characters and sequences that no text encodes to. */
static void decode_every_token(const eitp_tokenizer *tokenizer) {
    static char decoded[1 << 12];
    const int32_t size = eitp_tokenizer_size(tokenizer), count = size < 4096 ? size : 4096;
    int32_t ids[4096];
    size_t forward, backward;
    for (int32_t i = 0; i < count; i++)
        ids[i] = i;
    require(eitp_tokenizer_decode(tokenizer, ids, (size_t)count, decoded, sizeof decoded, &forward, NULL) == EITP_OK);
    for (int32_t i = 0; i < count; i++)
        ids[i] = count - 1 - i;
    require(eitp_tokenizer_decode(tokenizer, ids, (size_t)count, NULL, 0, &backward, NULL) == EITP_OK);
    require(tokenizer->model != EITP__MODEL_BPE || forward == backward);
}

static void use_json(const char *json, size_t size) {
    static const char text[] =
        "it's <|endoftext|>  two\n words\xF0\x9F\x98\x80 \xFF' [SEP] \xC3\x89t\xC3\xA9 \xE6\x97\xA5<s> \xE2\x96\x81t "
        "\xEF\xAC\x81\xEF\xB7\xBA ab_ab ab abc";
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    if (eitp__tokenizer_parse(&host, json, size, &tokenizer, &error) != EITP_OK) {
        require(!tokenizer && strlen(error.message) > 10);
        return;
    }
    require(eitp_tokenizer_size(tokenizer) >= 1);
    encode_both_ways(tokenizer, text, sizeof text, 3);
    decode_every_token(tokenizer);
    eitp_tokenizer_destroy(tokenizer);
}

/* A directory with a tokenizer.json, which has the byte tokens and two added ones, or with a vocab.txt. All files next
   to it have equal content. */
typedef struct one_directory {
    const char *name, *tokenizer, *beside;
    size_t tokenizer_size, beside_size;
    int has[EITP__SPECIAL_FILES];
} one_directory;

static int find_file(const one_directory *directory, const char *path, one_file *file) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    file->data = directory->tokenizer;
    file->size = directory->tokenizer_size;
    if (!strcmp(name, directory->name))
        return 1;
    file->data = directory->beside;
    file->size = directory->beside_size;
    for (int i = 0; i < EITP__SPECIAL_FILES; i++) {
        if (directory->has[i] && !strcmp(name, eitp__special_file_name(i)))
            return 1;
    }
    return 0;
}

static int file_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    static one_file files[EITP__SPECIAL_FILES + 1];
    static size_t next;
    one_file *found = &files[next++ % EITP__COUNT(files)]; /* one file is open at a time */
    require(mode == EITP_FILE_READ);
    *file = found;
    return find_file((const one_directory *)user, path, found) ? 0 : ENOENT;
}

static int path_info(void *user, const char *path, eitp_path_info *info) {
    one_file file;
    memset(info, 0, sizeof *info);
    info->kind = find_file((const one_directory *)user, path, &file) ? EITP_PATH_FILE : EITP_PATH_MISSING;
    return 0;
}

static void write_bytes_tokenizer(eitp__buffer *out) {
    eitp__buffer_add_text(out, "{\"added_tokens\":[{\"id\":256,\"content\":\"<s>\",\"special\":true},{\"id\":257,"
                               "\"content\":\"</s>\",\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                               "\"add_prefix_space\":false},\"model\":{\"merges\":[],\"vocab\":{");
    for (int byte = 0; byte < 256; byte++) {
        unsigned char character[8];
        size_t size = eitp__utf8_encode(eitp__byte_to_character((unsigned char)byte), character);
        eitp__buffer_add_text(out, byte ? "," : "");
        eitp__json_write_text(out, (const char *)character, size);
        eitp__buffer_format(out, ":%d", byte);
    }
    eitp__buffer_add_text(out, "}}}");
}

/* A host that sees only this directory. */
static eitp_host host_of(one_directory *directory) {
    eitp_host host = eitp_host_default();
    host.files.user = directory;
    host.files.open = file_open;
    host.files.close = one_file_close;
    host.files.size = one_file_size;
    host.files.read = one_file_read;
    host.files.info = path_info;
    return host;
}

/* Reads a line of JSON for the file next to vocab.txt, then its tokens. */
static void use_words(const char *text, size_t size) {
    const char *end = (const char *)memchr(text, '\n', size);
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    one_directory directory = {"vocab.txt", NULL, NULL, 0, 0, {0}};
    eitp_host host = host_of(&directory);
    directory.beside = text;
    directory.beside_size = end ? (size_t)(end - text) : size;
    directory.tokenizer = end ? end + 1 : "";
    directory.tokenizer_size = end ? size - directory.beside_size - 1 : 0;
    directory.has[EITP__TOKENIZER_CONFIG] = directory.beside_size > 0;
    if (eitp_tokenizer_load(&host, "some", &tokenizer, &error) != EITP_OK)
        require(!tokenizer && strlen(error.message) > 10);
    else
        encode_both_ways(tokenizer, text, size < FUZZ_TEXT_LIMIT ? size : FUZZ_TEXT_LIMIT, 5);
    eitp_tokenizer_destroy(tokenizer);
}

static void use_beside(const char *json, size_t size, unsigned which) {
    const eitp_host system = eitp_host_default();
    one_directory directory;
    eitp_host host = host_of(&directory);
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    eitp__buffer text;
    eitp__buffer_init(&text, &system);
    write_bytes_tokenizer(&text);
    directory.name = "tokenizer.json";
    directory.tokenizer = text.data;
    directory.tokenizer_size = text.size;
    directory.beside = json;
    directory.beside_size = size;
    for (int i = 0; i < EITP__SPECIAL_FILES; i++)
        directory.has[i] = which >> i & 1;
    if (eitp_tokenizer_load(&host, "some/tokenizer.json", &tokenizer, &error) != EITP_OK) {
        require(!tokenizer && strlen(error.message) > 10);
    } else {
        require(eitp_tokenizer_size(tokenizer) == 258);
        for (int i = 0; i < EITP_SPECIAL_TOKEN_COUNT; i++) {
            int32_t id = eitp_tokenizer_special(tokenizer, (eitp_special_token)i);
            require(id >= -1 && id < 258 && (id < 0 || tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_ADDED));
        }
        encode_both_ways(tokenizer, "a</s>b", 6, 2);
    }
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    if (data[0] == '{') /* lets an unmodified tokenizer.json serve as a seed */
        use_json((const char *)data, size);
    else if (data[0] == '#')
        use_beside((const char *)data + 2, size - 2, data[1]);
    else if (data[0] == '[')
        use_words((const char *)data + 1, size - 1);
    else if (size <= FUZZ_TEXT_LIMIT)
        use_text((const char *)data + 2, size - 2, (size_t)data[1] % 70 + 1);
    return 0;
}
