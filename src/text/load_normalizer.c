/* The normalizer of a tokenizer.json: Unicode's forms and lower case, then BERT's normalizer (WordPiece) or U+2581 for
   spaces (byte fallback). */
#include "text/loader.h"

static const char *const eitp__step_names[EITP__NORMALIZE_KINDS] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"};

/* ---- Loading ---- */

static eitp_status eitp__load_bert_normalizer(const eitp_json *part, eitp__normalization *steps, eitp_error *error) {
    eitp__normalization_set_bert(steps);
    eitp_status status = eitp__load_flag(part, "clean_text", 1, &steps->clean_text, error);
    if (status == EITP_OK)
        status = eitp__load_flag(part, "handle_chinese_chars", 1, &steps->handle_chinese_chars, error);
    if (status == EITP_OK)
        status = eitp__load_flag(part, "strip_accents", 0, &steps->strip_accents, error);
    return status == EITP_OK ? eitp__load_flag(part, "lowercase", 1, &steps->lowercase, error) : status;
}

static eitp_status eitp__load_space_normalizer(const eitp_json *part, const char *type, eitp__normalization *steps,
                                               eitp_error *error) {
    if (!strcmp(type, "Replace")) {
        steps->replaces_space = 1;
        return eitp__check_replace(part, "normalizer", " ", EITP__SPACE_TEXT, error);
    }
    if (!steps->prepends_space && eitp__text_equals(eitp_json_member(part, "prepend"), EITP__SPACE_TEXT)) {
        steps->prepends_space = 1;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported Prepend of the normalizer; it must prepend U+2581, once", part->line);
}

static eitp_status eitp__load_form(const eitp_json *part, const char *type, eitp__normalization *steps, int *is_found,
                                   eitp_error *error) {
    *is_found = 0;
    for (unsigned char kind = 0; kind < EITP__NORMALIZE_KINDS && !*is_found; kind++) {
        if (strcmp(type, eitp__step_names[kind]) != 0)
            continue;
        *is_found = 1;
        if (steps->step_count == EITP__NORMALIZE_STEPS)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %zu: unsupported normalizer of more than %d Unicode forms and Lowercase",
                              part->line, (int)EITP__NORMALIZE_STEPS);
        steps->steps[steps->step_count++] = kind;
    }
    return EITP_OK;
}

static eitp_status eitp__load_normalizer_part(int model, const eitp_json *part, eitp__normalization *steps,
                                              eitp_error *error);

static eitp_status eitp__load_normalizer_list(int model, const eitp_json *part, eitp__normalization *steps,
                                              eitp_error *error) {
    const eitp_json *list = eitp_json_member(part, "normalizers");
    eitp_status status = EITP_OK;
    if (!list || list->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: normalizers of the normalizer must be an array",
                          part->line);
    for (const eitp_json *step = list->first_child; step && status == EITP_OK; step = step->next)
        status = eitp__load_normalizer_part(model, step, steps, error);
    return status;
}

/* Reads one normalizer. The model's own step must come last. */
static eitp_status eitp__load_normalizer_part(int model, const eitp_json *part, eitp__normalization *steps,
                                              eitp_error *error) {
    static const char *const more[] = {"", ", BertNormalizer at the end",
                                       ", Prepend of U+2581, and Replace at the end"};
    const int is_last = steps->is_bert || steps->replaces_space;
    const char *type;
    int is_found = 0;
    eitp_status status = eitp__element_type(part, "normalizer", &type, error);
    if (status != EITP_OK)
        return status;
    if (!strcmp(type, "Sequence"))
        return eitp__load_normalizer_list(model, part, steps, error);
    if (!is_last && model == EITP__MODEL_WORDPIECE && !strcmp(type, "BertNormalizer"))
        return eitp__load_bert_normalizer(part, steps, error);
    if (!is_last && model == EITP__MODEL_BYTE_FALLBACK && (!strcmp(type, "Replace") || !strcmp(type, "Prepend")))
        return eitp__load_space_normalizer(part, type, steps, error);
    if (!is_last)
        status = eitp__load_form(part, type, steps, &is_found, error);
    if (status != EITP_OK || is_found)
        return status;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported normalizer \"%.80s\"%s of %s; it must be null, or made of NFC, NFD, NFKC, "
                      "NFKD and Lowercase%s",
                      part->line, type, is_last ? " after the last step" : "", eitp__model_name(model), more[model]);
}

EITP__PRIVATE eitp_status eitp__load_normalizer(eitp_tokenizer *tokenizer, const eitp_json *root, eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, "normalizer");
    eitp__normalization *steps = &tokenizer->normalization;
    eitp_status status = EITP_OK;
    if (!eitp__is_absent(part))
        status = eitp__load_normalizer_part(tokenizer->model, part, steps, error);
    if (status == EITP_OK && steps->prepends_space && !steps->replaces_space)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported normalizer without a Replace of spaces with U+2581", part->line);
    tokenizer->has_normalizer = steps->step_count || steps->is_bert || steps->replaces_space;
    return status;
}

/* ---- Saving ---- */

/* Starts another step in a list. */
static void eitp__write_step(size_t *written, const char *type, eitp__buffer *out) {
    eitp__buffer_format(out, "%s{\"type\":\"%s\"", (*written)++ ? "," : "", type);
}

static const char *eitp__flag_text(int value) {
    return value < 0 ? "null" : value ? "true" : "false";
}

EITP__PRIVATE void eitp__write_normalizer(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    const eitp__normalization *steps = &tokenizer->normalization;
    const size_t count =
        steps->step_count + (size_t)steps->is_bert + (size_t)steps->replaces_space + (size_t)steps->prepends_space;
    size_t written = 0;
    eitp__buffer_add_text(out, "\"normalizer\":");
    eitp__buffer_add_text(out, count > 1 ? "{\"type\":\"Sequence\",\"normalizers\":[" : count ? "" : "null");
    for (size_t i = 0; i < steps->step_count; i++) {
        eitp__write_step(&written, eitp__step_names[steps->steps[i]], out);
        eitp__buffer_add_text(out, "}");
    }
    if (steps->is_bert) {
        eitp__write_step(&written, "BertNormalizer", out);
        eitp__buffer_format(out,
                            ",\"clean_text\":%s,\"handle_chinese_chars\":%s,\"strip_accents\":%s,\"lowercase\":%s}",
                            eitp__flag_text(steps->clean_text), eitp__flag_text(steps->handle_chinese_chars),
                            eitp__flag_text(steps->strip_accents), eitp__flag_text(steps->lowercase));
    }
    if (steps->prepends_space) {
        eitp__write_step(&written, "Prepend", out);
        eitp__buffer_add_text(out, ",\"prepend\":\"" EITP__SPACE_TEXT "\"}");
    }
    if (steps->replaces_space) {
        eitp__write_step(&written, "Replace", out);
        eitp__buffer_add_text(out, ",\"pattern\":{\"String\":\" \"},\"content\":\"" EITP__SPACE_TEXT "\"}");
    }
    eitp__buffer_add_text(out, count > 1 ? "]},\n" : ",\n");
}
