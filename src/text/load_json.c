/* Reading tokenizer.json, and refusing anything except byte-level BPE, BPE with byte fallback and BERT's WordPiece. */
#include "text/loader.h"
#include "gguf/model_json.h"

/* True for BPE of characters. With ByteLevel, bytes are never a fallback. */
static int eitp__is_byte_fallback(const eitp_json *root) {
    const eitp_json *value = eitp_json_member(eitp_json_member(root, "model"), "byte_fallback");
    const eitp_json *type = eitp_json_member(eitp_json_member(root, "pre_tokenizer"), "type");
    const int has_type = type && type->kind == EITP_JSON_STRING;
    return value && value->kind == EITP_JSON_BOOLEAN && value->boolean &&
           !(has_type && (!strcmp(type->text, "ByteLevel") || !strcmp(type->text, "Sequence")));
}

/* Determines the model by its type, or without one by its members. */
static eitp_status eitp__find_model(const eitp_json *root, int *kind, eitp_error *error) {
    const eitp_json *model = eitp_json_member(root, "model");
    const char *type = eitp_json_member(model, "max_input_chars_per_word") ? "WordPiece" : "BPE";
    if (!model || model->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "\"model\" must be an object; check that the file is a tokenizer.json");
    eitp_status status = eitp__json_get_text(model, "type", &type, error);
    *kind = strcmp(type, "WordPiece") ? EITP__MODEL_BPE : EITP__MODEL_WORDPIECE;
    if (status == EITP_OK && *kind == EITP__MODEL_BPE && strcmp(type, "BPE"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported model \"%.80s\"; it must be BPE or WordPiece", model->line, type);
    if (*kind == EITP__MODEL_BPE && eitp__is_byte_fallback(root))
        *kind = EITP__MODEL_BYTE_FALLBACK;
    return status;
}

/* The parts around byte-level BPE: normalization and cutting of text. */
typedef struct eitp__bytes_parts {
    eitp__split split;
    int add_prefix_space, ignores_merges;
    const eitp_json *kept; /* the pre_tokenizer if it is more than ByteLevel, else NULL */
} eitp__bytes_parts;

/* Reads a ByteLevel that cuts by GPT-2's pattern, or does not cut. */
static eitp_status eitp__load_byte_level(const eitp_json *part, int cuts, eitp__bytes_parts *parts, eitp_error *error) {
    const char *type = "?";
    int use_regex = 1;
    eitp_status status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    if (strcmp(type, "ByteLevel"))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: unsupported pre_tokenizer \"%.80s\"; it must be ByteLevel, or a Sequence of Digits or "
            "Split and ByteLevel",
            part->line, type);
    status = eitp__json_get_boolean(part, "use_regex", &use_regex, error);
    if (status == EITP_OK && use_regex != cuts)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported use_regex %s of the pre_tokenizer; it must be %s", part->line,
                          use_regex ? "true" : "false", cuts ? "true" : "false");
    if (status == EITP_OK && eitp__is_absent(eitp_json_member(part, "add_prefix_space")))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: add_prefix_space of the pre_tokenizer is missing",
                          part->line);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "add_prefix_space", &parts->add_prefix_space, error);
    if (status == EITP_OK && parts->kept && parts->add_prefix_space)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "line %zu: unsupported add_prefix_space true of the pre_tokenizer; it must be false",
                            part->line);
    return status;
}

/* Reads "Digits", which must split single digits. */
static eitp_status eitp__load_digits(const eitp_json *part, eitp__bytes_parts *parts, eitp_error *error) {
    int individual = 0;
    eitp_status status = eitp__json_get_boolean(part, "individual_digits", &individual, error);
    if (status == EITP_OK && !individual)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported individual_digits false of the pre_tokenizer; it must be true",
                          part->line);
    parts->split = EITP__SPLIT_DIGITS;
    return status;
}

/* Reads "Split" by one of the known patterns. */
static eitp_status eitp__load_pattern(const eitp_json *part, eitp__bytes_parts *parts, eitp_error *error) {
    const eitp_json *regex = eitp_json_member(eitp_json_member(part, "pattern"), "Regex");
    const char *behavior = "?";
    int invert = 0;
    eitp_status status = eitp__json_get_text(part, "behavior", &behavior, error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "invert", &invert, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    for (int split = 0; split < EITP__SPLITS && regex && regex->kind == EITP_JSON_STRING; split++) {
        const char *pattern = eitp__split_pattern((eitp__split)split);
        if (!pattern || strcmp(pattern, regex->text) || strcmp(behavior, "Isolated") || invert)
            continue;
        parts->split = (eitp__split)split;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported pattern of the pre_tokenizer; it must be Qwen2's or Llama 3's, isolated",
                      part->line);
}

/* Reads a Sequence of Digits or Split, and ByteLevel. */
static eitp_status eitp__load_split_sequence(const eitp_json *part, eitp__bytes_parts *parts, eitp_error *error) {
    const eitp_json *list = eitp_json_member(part, "pretokenizers");
    const eitp_json *first = list && list->kind == EITP_JSON_ARRAY && list->count == 2 ? list->first_child : NULL;
    const char *type = "?";
    eitp_status status;
    if (!first)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported Sequence as pre_tokenizer; it must be Digits or Split, and ByteLevel",
                          part->line);
    parts->kept = part;
    status = eitp__json_get_text(first, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    if (strcmp(type, "Digits") && strcmp(type, "Split"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported pre_tokenizer \"%.80s\" in a Sequence; it must be Digits or Split",
                          first->line, type);
    status = strcmp(type, "Digits") ? eitp__load_pattern(first, parts, error) : eitp__load_digits(first, parts, error);
    return status == EITP_OK ? eitp__load_byte_level(first->next, parts->split == EITP__SPLIT_DIGITS, parts, error)
                             : status;
}

static eitp_status eitp__check_pre_tokenizer(const eitp_json *root, eitp__bytes_parts *parts, eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, "pre_tokenizer");
    const char *type = "?";
    eitp_status status;
    if (eitp__is_absent(part))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "pre_tokenizer is missing; it must be ByteLevel");
    status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    return strcmp(type, "Sequence") ? eitp__load_byte_level(part, 1, parts, error)
                                    : eitp__load_split_sequence(part, parts, error);
}

/* Reads the parts around byte-level BPE. */
static eitp_status eitp__check_bytes_parts(const eitp_json *root, eitp__bytes_parts *parts, eitp_error *error) {
    const char *type;
    eitp_status status = eitp__check_bpe(eitp_json_member(root, "model"), &parts->ignores_merges, error);
    if (status == EITP_OK)
        status = eitp__check_pre_tokenizer(root, parts, error);
    if (status == EITP_OK)
        status = eitp__part_type(root, "decoder", "ByteLevel", &type, error);
    return status;
}

/* Reads the handling of bytes that the vocabulary lacks. */
static eitp_status eitp__load_unknown_bytes(eitp__loader *loader, const eitp_json *model, eitp_error *error) {
    int lacks_bytes = 0, falls_back = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        const unsigned char value = (unsigned char)byte;
        lacks_bytes |= !*eitp__loader_slot(loader, &value, 1, 0);
    }
    eitp_status status = eitp__json_get_boolean(model, "byte_fallback", &falls_back, error);
    /* The library falls back to the bytes of the character that spells the byte. */
    if (status == EITP_OK && falls_back && lacks_bytes)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported byte_fallback of byte-level BPE whose vocabulary lacks bytes; it must "
                          "be false",
                          model->line);
    return status == EITP_OK ? eitp__load_unknown_symbol(loader, model, lacks_bytes, error) : status;
}

static eitp_status eitp__load_bpe(eitp__loader *loader, const eitp_json *root, size_t added_ids, eitp_error *error) {
    const eitp_json *model = eitp_json_member(root, "model"), *merges = eitp_json_member(model, "merges");
    eitp__bytes_parts parts = EITP__ZERO;
    eitp_tokenizer *tokenizer;
    eitp_status status = eitp__check_bytes_parts(root, &parts, error);
    if (status != EITP_OK)
        return status;
    if (!merges || merges->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"merges\" of the model must be an array");
    status = eitp__load_vocabulary(loader, eitp_json_member(model, "vocab"), added_ids, merges->count, error);
    if (status != EITP_OK)
        return status;
    tokenizer = loader->tokenizer;
    tokenizer->add_prefix_space = parts.add_prefix_space;
    tokenizer->split = parts.split;
    tokenizer->ignores_merges = parts.ignores_merges;
    if (parts.kept)
        eitp__json_write_value(&tokenizer->kept[EITP__KEPT_PRE_TOKENIZER], parts.kept);
    if (tokenizer->kept[EITP__KEPT_PRE_TOKENIZER].failed)
        return eitp__fail_memory(error, 0, "the tokenizer's pre_tokenizer");
    status = eitp__load_normalizer(tokenizer, root, error);
    if (status == EITP_OK)
        status = eitp__load_unknown_bytes(loader, model, error);
    return status == EITP_OK ? eitp__load_json_merges(loader, merges, error) : status;
}

/* Reads the parts around WordPiece. */
static eitp_status eitp__load_words_parts(eitp_tokenizer *tokenizer, const eitp_json *root, eitp_error *error) {
    const eitp_json *decoder = eitp_json_member(root, "decoder");
    const char *type;
    eitp_status status = eitp__part_type(root, "pre_tokenizer", "BertPreTokenizer", &type, error);
    if (status == EITP_OK && !type)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "pre_tokenizer is missing; it must be BertPreTokenizer");
    if (status == EITP_OK)
        status = eitp__load_normalizer(tokenizer, root, error);
    if (status == EITP_OK)
        status = eitp__part_type(root, "decoder", "WordPiece", &type, error);
    tokenizer->decodes_words = type != NULL;
    return status == EITP_OK && type ? eitp__load_flag(decoder, "cleanup", 1, &tokenizer->cleans_up, error) : status;
}

static eitp_status eitp__load_wordpiece(eitp__loader *loader, const eitp_json *root, size_t added_ids,
                                        eitp_error *error) {
    const eitp_json *model = eitp_json_member(root, "model");
    const eitp_json *prefix = eitp_json_member(model, "continuing_subword_prefix");
    const eitp_json *unknown = eitp_json_member(model, "unk_token"), *decoder = eitp_json_member(root, "decoder");
    const eitp_json *joined = eitp_json_member(decoder, "prefix");
    int64_t characters = 100;
    if (!prefix || prefix->kind != EITP_JSON_STRING || !unknown || unknown->kind != EITP_JSON_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: unk_token and continuing_subword_prefix of the model must be strings",
                          model->line);
    if (!eitp__is_absent(decoder) &&
        (!joined || joined->kind != EITP_JSON_STRING || strcmp(joined->text, prefix->text)))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: unsupported decoder, whose prefix differs from the continuing_subword_prefix \"%.80s\" "
            "of the model",
            decoder->line, prefix->text);
    eitp_status status = eitp__json_get_integer(model, "max_input_chars_per_word", 0, INT32_MAX, &characters, error);
    if (status == EITP_OK)
        status = eitp__load_vocabulary(loader, eitp_json_member(model, "vocab"), added_ids, 0, error);
    if (status == EITP_OK)
        status = eitp__load_words_parts(loader->tokenizer, root, error);
    if (status == EITP_OK)
        status = eitp__load_unknown(loader, unknown->text, unknown->text_size, error);
    if (status != EITP_OK)
        return status;
    eitp_tokenizer *tokenizer = loader->tokenizer;
    tokenizer->family = EITP__FAMILY_BERT;
    tokenizer->wordpiece.max_characters = (uint64_t)characters;
    eitp__buffer_add(&tokenizer->wordpiece.prefix, prefix->text, prefix->text_size);
    return tokenizer->wordpiece.prefix.failed ? eitp__fail_memory(error, prefix->text_size, "a tokenizer") : EITP_OK;
}

static eitp_status eitp__keep_decoder(eitp__loader *loader, const eitp_json *root, eitp_error *error) {
    const eitp_json *decoder = eitp_json_member(root, eitp__preserved_part_name(EITP__KEPT_DECODER));
    eitp__buffer *kept = &loader->tokenizer->kept[EITP__KEPT_DECODER];
    if (decoder)
        eitp__json_write_value(kept, decoder);
    return kept->failed ? eitp__fail_memory(error, kept->size, "the tokenizer's decoder") : EITP_OK;
}

static eitp_status eitp__load_model(eitp__loader *loader, const eitp_json *root, size_t added_ids, eitp_error *error) {
    switch (loader->model) {
    case EITP__MODEL_BPE:
        return eitp__load_bpe(loader, root, added_ids, error);
    case EITP__MODEL_BYTE_FALLBACK:
        return eitp__load_byte_fallback(loader, root, added_ids, error);
    default:
        return eitp__load_wordpiece(loader, root, added_ids, error);
    }
}

static eitp_status eitp__load_document(eitp__loader *loader, const eitp_json *root, eitp_error *error) {
    const eitp_json *model = eitp_json_member(root, "model"), *added = eitp_json_member(root, "added_tokens");
    const eitp_json *vocabulary = eitp_json_member(model, "vocab");
    const size_t count = vocabulary ? vocabulary->count : 0, added_ids = eitp__count_added_ids(added);
    const char *name;
    eitp_status status = eitp__find_model(root, &loader->model, error);
    if (status == EITP_OK && !eitp__is_absent(added) && added->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens must be an array", added->line);
    if (status == EITP_OK)
        status = eitp__load_model(loader, root, added_ids, error);
    if (status == EITP_OK)
        status = eitp__load_added_tokens(loader, added, count, error);
    if (status == EITP_OK)
        status = eitp__load_post_processor(loader, eitp_json_member(root, "post_processor"), error);
    if (status == EITP_OK)
        status = eitp__load_defaults(loader, root, error);
    if (status == EITP_OK)
        status = eitp__keep_decoder(loader, root, error);
    if (status != EITP_OK)
        return status;
    if (eitp__named_family(loader->files, &name) == EITP__FAMILY_ROBERTA)
        loader->tokenizer->family = EITP__FAMILY_ROBERTA;
    return eitp__load_special_tokens(loader, error);
}

static eitp_status eitp__tokenizer_from_document(const eitp_host *host, const eitp_json_document *document,
                                                 const eitp__special_files *files, eitp_tokenizer **out,
                                                 eitp_error *error) {
    eitp__loader loader;
    eitp__loader_init(&loader, host, files);
    return eitp__loader_finish(&loader, eitp__load_document(&loader, eitp_json_root(document), error), out);
}

EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error) {
    const eitp__special_files none = EITP__ZERO;
    eitp_json_document *document;
    *out = NULL;
    eitp_status status = eitp_json_parse(host, json, size, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, &none, out, error);
    eitp_json_release(document);
    return status;
}

EITP__PRIVATE eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path,
                                                    const eitp__special_files *files, eitp_tokenizer **out,
                                                    eitp_error *error) {
    eitp_json_document *document;
    eitp_status status = eitp__model_json_read_strict(host, path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, files, out, error);
    if (status != EITP_OK)
        status = eitp__fail_prefix(error, status, "%s", path);
    eitp_json_release(document);
    return status;
}
