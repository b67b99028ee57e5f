/* Post-processors of tokenizer.json, which add special tokens around the text. */
#include "text/loader.h"

EITP__PRIVATE void eitp__set_template(eitp_tokenizer *tokenizer, int family, int32_t begin, int32_t end) {
    const int is_bert = family == EITP__FAMILY_BERT;
    eitp__template *single = &tokenizer->single, *pair = &tokenizer->pair;
    single->count = pair->count = 0;
    eitp__template_add(single, begin, 0);
    eitp__template_add(single, EITP__TEMPLATE_FIRST, 0);
    eitp__template_add(single, end, 0);
    *pair = *single;
    if (!is_bert) /* RoBERTa has two separators, and one segment */
        eitp__template_add(pair, end, 0);
    eitp__template_add(pair, EITP__TEMPLATE_SECOND, is_bert);
    eitp__template_add(pair, end, is_bert);
}

/* Checks that a template's token has the same id in the vocabulary. */
static eitp_status eitp__check_template_token(const eitp__loader *loader, const eitp_json *place, const char *text,
                                              size_t size, int64_t id, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    if (id >= 0 && (uint64_t)id < vocabulary->count && vocabulary->tokens[id].size == size &&
        !memcmp(eitp__token_bytes(loader->tokenizer, (size_t)id), text, size))
        return EITP_OK;
    return eitp__fail(
        error, EITP_ERROR_FORMAT,
        "line %zu: post_processor: the vocabulary lacks the token \"%.*s\" with id %lld, which is added to "
        "texts",
        place->line, eitp__excerpt_size(size), text, (long long)id);
}

/* Adds the tokens called `name` in a template: {"ids": [101], "tokens": ["[CLS]"]}. */
static eitp_status eitp__add_template_tokens(const eitp__loader *loader, const eitp_json *part, const eitp_json *place,
                                             const char *name, int32_t segment, eitp__template *out,
                                             eitp_error *error) {
    const eitp_json *named = eitp_json_member(eitp_json_member(part, "special_tokens"), name);
    const eitp_json *ids = eitp_json_member(named, "ids"), *tokens = eitp_json_member(named, "tokens");
    if (!ids || !tokens || ids->kind != EITP_JSON_ARRAY || tokens->kind != EITP_JSON_ARRAY ||
        ids->count != tokens->count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: post_processor: special_tokens lacks \"%.80s\", with as many ids as tokens",
                          place->line, name);
    const eitp_json *token = tokens->first_child;
    for (const eitp_json *id = ids->first_child; id; id = id->next, token = token->next) {
        if (id->kind != EITP_JSON_NUMBER || !id->is_integer || token->kind != EITP_JSON_STRING)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: post_processor: ids of \"%.80s\" must be integers, and tokens strings",
                              id->line, name);
        eitp_status status = eitp__check_template_token(loader, id, token->text, token->text_size, id->integer, error);
        if (status != EITP_OK)
            return status;
        if (!eitp__template_add(out, (int32_t)id->integer, segment))
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %zu: unsupported post_processor with more than %zu pieces", place->line,
                              EITP__TEMPLATE_LIMIT);
    }
    return EITP_OK;
}

/* Adds a piece of a template: {"SpecialToken": {"id": "[CLS]", "type_id": 0}} or {"Sequence": {"id": "A", ...}}. */
static eitp_status eitp__add_template_piece(const eitp__loader *loader, const eitp_json *part, const eitp_json *piece,
                                            eitp__template *out, eitp_error *error) {
    const eitp_json *special = eitp_json_member(piece, "SpecialToken"), *text = eitp_json_member(piece, "Sequence");
    const char *id = NULL;
    int64_t segment = 0;
    eitp_status status = eitp__json_get_text(special ? special : text, "id", &id, error);
    if (status == EITP_OK)
        status = eitp__json_get_integer(special ? special : text, "type_id", 0, INT32_MAX, &segment, error);
    if (status == EITP_OK && special && id)
        return eitp__add_template_tokens(loader, part, piece, id, (int32_t)segment, out, error);
    if (status != EITP_OK ||
        (id && (!strcmp(id, "A") || !strcmp(id, "B")) &&
         eitp__template_add(out, *id == 'A' ? EITP__TEMPLATE_FIRST : EITP__TEMPLATE_SECOND, (int32_t)segment)))
        return status;
    return eitp__fail(
        error, EITP_ERROR_FORMAT,
        "line %zu: post_processor: a piece must be a SpecialToken with an id, or a Sequence with id A or B, "
        "and there can be %zu",
        piece->line, EITP__TEMPLATE_LIMIT);
}

/* Reads the template called `name`, which must contain each text once. */
static eitp_status eitp__load_one_template(const eitp__loader *loader, const eitp_json *part, const char *name,
                                           size_t texts, eitp__template *out, eitp_error *error) {
    const eitp_json *pieces = eitp_json_member(part, name);
    size_t found[2] = {0, 0};
    if (!pieces || pieces->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: post_processor: \"%s\" must be an array", part->line,
                          name);
    out->count = 0;
    for (const eitp_json *piece = pieces->first_child; piece; piece = piece->next) {
        eitp_status status = eitp__add_template_piece(loader, part, piece, out, error);
        if (status != EITP_OK)
            return status;
    }
    for (size_t i = 0; i < out->count; i++) {
        if (out->pieces[i].id < 0)
            found[out->pieces[i].id == EITP__TEMPLATE_SECOND]++;
    }
    if (found[0] != 1 || found[1] != texts - 1)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported \"%s\" of the post_processor; it must have the sequence A%s once",
                          pieces->line, name, texts > 1 ? " and the sequence B" : ", and no B,");
    return EITP_OK;
}

/* Reads a token and its id: ["[SEP]", 102]. */
static eitp_status eitp__load_processor_token(const eitp__loader *loader, const eitp_json *part, const char *name,
                                              int32_t *id, eitp_error *error) {
    const eitp_json *pair = eitp_json_member(part, name), *text = pair ? pair->first_child : NULL;
    if (!pair || pair->kind != EITP_JSON_ARRAY || pair->count != 2 || text->kind != EITP_JSON_STRING ||
        text->next->kind != EITP_JSON_NUMBER || !text->next->is_integer)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: post_processor: \"%s\" must be [\"token\", id]",
                          part->line, name);
    *id = (int32_t)text->next->integer;
    return eitp__check_template_token(loader, pair, text->text, text->text_size, text->next->integer, error);
}

static eitp_status eitp__load_processor(eitp__loader *loader, const eitp_json *part, int *found, eitp_error *error);

static eitp_status eitp__load_processors(eitp__loader *loader, const eitp_json *part, int *found, eitp_error *error) {
    const eitp_json *inner = eitp_json_member(part, "processors");
    eitp_status status = EITP_OK;
    if (!inner || inner->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: post_processor: \"processors\" must be an array",
                          part->line);
    for (inner = inner->first_child; inner && status == EITP_OK; inner = inner->next)
        status = eitp__load_processor(loader, inner, found, error);
    return status;
}

/* Reads one processor. *found is 1 once a processor has set the templates. */
static eitp_status eitp__load_processor(eitp__loader *loader, const eitp_json *part, int *found, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    const char *type = "?";
    int32_t begin = -1, end = -1;
    eitp_status status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "post_processor");
    if (!strcmp(type, "ByteLevel")) /* affects only offsets */
        return EITP_OK;
    if (!strcmp(type, "Sequence"))
        return eitp__load_processors(loader, part, found, error);
    const int is_template = !strcmp(type, "TemplateProcessing"), is_bert = !strcmp(type, "BertProcessing");
    if (*found || (!is_template && !is_bert && strcmp(type, "RobertaProcessing")))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported post_processor \"%.80s\"%s; it must be null, ByteLevel, "
                          "TemplateProcessing, BertProcessing or RobertaProcessing",
                          part->line, type, *found ? " after another one" : "");
    *found = 1;
    if (is_template) {
        status = eitp__load_one_template(loader, part, "single", 1, &tokenizer->single, error);
        return status == EITP_OK ? eitp__load_one_template(loader, part, "pair", 2, &tokenizer->pair, error) : status;
    }
    status = eitp__load_processor_token(loader, part, "cls", &begin, error);
    if (status == EITP_OK)
        status = eitp__load_processor_token(loader, part, "sep", &end, error);
    if (status == EITP_OK)
        eitp__set_template(tokenizer, is_bert ? EITP__FAMILY_BERT : EITP__FAMILY_ROBERTA, begin, end);
    return status;
}

EITP__PRIVATE eitp_status eitp__load_post_processor(eitp__loader *loader, const eitp_json *part, eitp_error *error) {
    eitp__buffer *kept = &loader->tokenizer->kept[EITP__KEPT_POST_PROCESSOR];
    int found = 0;
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__load_processor(loader, part, &found, error);
    if (status == EITP_OK)
        eitp__json_write_value(kept, part);
    return kept->failed ? eitp__fail_memory(error, kept->size, "the tokenizer's post-processor") : status;
}
