/* BPE with byte fallback in a tokenizer.json, as in Llama 2, Mistral and Gemma, with its other parts. */
#include "text/loader.h"

/* ---- Pre-tokenizer ---- */

/* Reads a Metaspace of the pre-tokenizer or decoder: where it adds a space, and whether it splits. */
static eitp_status eitp__load_metaspace(const eitp_json *part, const char *name, int *prefix, int *splits,
                                        eitp_error *error) {
    static const struct {
        const char *name;
        int prefix;
    } schemes[] = {{"always", EITP__PREFIX_META}, {"first", EITP__PREFIX_FIRST}, {"never", EITP__PREFIX_NONE}};
    const char *scheme = "always";
    int adds = 1, found = -1;
    *splits = 1;
    eitp_status status = eitp__json_get_text(part, "prepend_scheme", &scheme, error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "add_prefix_space", &adds, error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "split", splits, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", name);
    for (size_t i = 0; i < EITP__COUNT(schemes); i++) {
        if (!strcmp(schemes[i].name, scheme))
            found = *prefix = schemes[i].prefix;
    }
    if (found < 0 || (!adds && found != EITP__PREFIX_NONE))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: prepend_scheme \"%.80s\" of the %s must be always, first or never%s", part->line,
                          scheme, name, adds ? "" : ", and never without add_prefix_space");
    if (!eitp__text_equals(eitp_json_member(part, "replacement"), EITP__SPACE_TEXT))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported replacement of the %s; it must be U+2581", part->line, name);
    return EITP_OK;
}

/* Reads the pre-tokenizer. Sets *replaces if it replaces spaces with U+2581. "Split" at spaces is accepted, because no
   spaces are left. */
static eitp_status eitp__load_space_splits(eitp_tokenizer *tokenizer, const eitp_json *root, int *replaces,
                                           eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, "pre_tokenizer");
    const char *type;
    *replaces = 0;
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__element_type(part, "pre_tokenizer", &type, error);
    if (status != EITP_OK)
        return status;
    if (!strcmp(type, "Metaspace")) {
        *replaces = 1;
        return eitp__load_metaspace(part, "pre_tokenizer", &tokenizer->add_prefix_space, &tokenizer->fallback.splits,
                                    error);
    }
    if (!strcmp(type, "Split") && tokenizer->normalization.replaces_space &&
        eitp__text_equals(eitp_json_member(eitp_json_member(part, "pattern"), "String"), " ") &&
        eitp__text_equals(eitp_json_member(part, "behavior"), "MergedWithPrevious"))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported pre_tokenizer \"%.80s\" of BPE with byte fallback; it must be null, "
                      "Metaspace, or, after a Replace of spaces, Split at spaces, MergedWithPrevious",
                      part->line, type);
}

/* ---- Decoder ---- */

static eitp_status eitp__check_strip(const eitp_json *part, eitp_error *error) {
    int64_t start = 0, stop = 0;
    eitp_status status = eitp__json_get_integer(part, "start", 0, INT32_MAX, &start, error);
    if (status == EITP_OK)
        status = eitp__json_get_integer(part, "stop", 0, INT32_MAX, &stop, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "decoder");
    if (start != 1 || stop || !eitp__text_equals(eitp_json_member(part, "content"), " "))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported Strip of the decoder; it must strip one space at the start, and none "
                          "at the end",
                          part->line);
    return EITP_OK;
}

/* Reads the decoder's Metaspace. */
static eitp_status eitp__load_space_decoder(const eitp_json *part, unsigned *decoding, eitp_error *error) {
    int prefix = EITP__PREFIX_NONE, splits;
    eitp_status status = eitp__load_metaspace(part, "decoder", &prefix, &splits, error);
    *decoding |= EITP__DECODE_SPACES | (prefix == EITP__PREFIX_NONE ? 0 : (unsigned)EITP__DECODE_DROP_FIRST);
    return status;
}

/* Reads one decoder. `*stage` is the number of the last one. Decoders must be in order; any may be missing, but Strip
   requires Fuse. */
static eitp_status eitp__load_decoder_step(const eitp_json *part, int *stage, unsigned *decoding, eitp_error *error) {
    enum { START, SPACES, BYTES, FUSE, STRIP };
    const int before = *stage;
    const char *type;
    eitp_status status = eitp__element_type(part, "decoder", &type, error);
    if (status != EITP_OK)
        return status;
    if (!strcmp(type, "Replace") && before < SPACES) {
        *stage = SPACES;
        *decoding |= EITP__DECODE_SPACES;
        return eitp__check_replace(part, "decoder", EITP__SPACE_TEXT, " ", error);
    }
    if (!strcmp(type, "Metaspace") && before < SPACES) {
        *stage = SPACES;
        return eitp__load_space_decoder(part, decoding, error);
    }
    if (!strcmp(type, "ByteFallback") && before < BYTES) {
        *stage = BYTES;
        *decoding |= EITP__DECODE_BYTES;
        return EITP_OK;
    }
    if (!strcmp(type, "Fuse") && before < FUSE) {
        *stage = FUSE;
        return EITP_OK;
    }
    if (!strcmp(type, "Strip") && before == FUSE) {
        *stage = STRIP;
        *decoding |= EITP__DECODE_STRIP;
        return eitp__check_strip(part, error);
    }
    return eitp__fail(
        error, EITP_ERROR_UNSUPPORTED,
        "line %zu: unsupported decoder \"%.80s\" of BPE with byte fallback; it must be null, Metaspace, or "
        "a Sequence of Replace or Metaspace, ByteFallback, Fuse and Strip in this order",
        part->line, type);
}

static eitp_status eitp__load_byte_decoder(const eitp_json *root, unsigned *decoding, eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, "decoder"), *list;
    const char *type;
    int stage = 0;
    *decoding = 0;
    if (eitp__is_absent(part)) {
        *decoding = EITP__DECODE_SEPARATED;
        return EITP_OK;
    }
    eitp_status status = eitp__element_type(part, "decoder", &type, error);
    if (status != EITP_OK || strcmp(type, "Sequence") != 0)
        return status == EITP_OK ? eitp__load_decoder_step(part, &stage, decoding, error) : status;
    list = eitp_json_member(part, "decoders");
    if (!list || list->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: decoders of the decoder must be an array", part->line);
    for (const eitp_json *step = list->first_child; step && status == EITP_OK; step = step->next)
        status = eitp__load_decoder_step(step, &stage, decoding, error);
    return status;
}

/* ---- The model ---- */

static eitp_status eitp__load_fallback_parts(eitp_tokenizer *tokenizer, const eitp_json *root, eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, "pre_tokenizer");
    eitp__buffer *kept = &tokenizer->kept[EITP__KEPT_PRE_TOKENIZER];
    int replaces;
    eitp_status status = eitp__load_normalizer(tokenizer, root, error);
    if (status == EITP_OK)
        status = eitp__load_space_splits(tokenizer, root, &replaces, error);
    if (status == EITP_OK && !replaces && !tokenizer->normalization.replaces_space)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "neither normalizer nor pre_tokenizer replaces spaces with U+2581; one of them must");
    if (status == EITP_OK)
        status = eitp__load_byte_decoder(root, &tokenizer->fallback.decoding, error);
    if (status == EITP_OK && !eitp__is_absent(part))
        eitp__json_write_value(kept, part);
    return kept->failed ? eitp__fail_memory(error, kept->size, "the tokenizer's pre_tokenizer") : status;
}

EITP__PRIVATE eitp_status eitp__load_byte_fallback(eitp__loader *loader, const eitp_json *root, size_t added_ids,
                                                   eitp_error *error) {
    const eitp_json *model = eitp_json_member(root, "model"), *merges = eitp_json_member(model, "merges");
    int ignores_merges = 0;
    eitp_status status = eitp__check_bpe(model, &ignores_merges, error);
    if (status == EITP_OK && (!merges || merges->kind != EITP_JSON_ARRAY))
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"merges\" of the model must be an array");
    if (status == EITP_OK)
        status = eitp__load_vocabulary(loader, eitp_json_member(model, "vocab"), added_ids, merges->count, error);
    if (status == EITP_OK)
        status = eitp__load_fallback_parts(loader->tokenizer, root, error);
    if (status == EITP_OK)
        status = eitp__load_unknown_symbol(loader, model, 1, error);
    if (status != EITP_OK)
        return status;
    loader->tokenizer->ignores_merges = ignores_merges;
    loader->tokenizer->family = eitp__load_find(loader, "<bos>", 5) >= 0 ? EITP__FAMILY_GEMMA : EITP__FAMILY_LLAMA;
    return eitp__load_json_merges(loader, merges, error);
}
