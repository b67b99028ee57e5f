#include "gguf/tokenizer_text.h"

#include "base/json.h"
#include "gguf/tokenizer_merges.h"

#define EITP__GGUF_SPACE_JSON "\"\\u2581\""

static const char *eitp__gguf_boolean(int value) {
    return value ? "true" : "false";
}

static void eitp__gguf_write_text(eitp__buffer *text, eitp__gguf_text value) {
    eitp__json_write_text(text, value.data, value.size);
}

/* ---- Added tokens ---- */

static void eitp__gguf_write_added_tokens(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    const eitp__gguf_pieces *pieces = &tokenizer->pieces;
    const char *separator = "\n";
    eitp__buffer_add_text(text, "\"added_tokens\": [");
    for (size_t id = 0; id < pieces->count; id++) {
        const int takes_left = tokenizer->pre.encoder && (int64_t)id == tokenizer->ids[EITP__GGUF_MASK];
        if (!eitp__gguf_piece_is_added(pieces, id))
            continue;
        eitp__buffer_format(text, "%s{\"id\": %zu, \"content\": ", separator, id);
        eitp__gguf_write_text(text, pieces->texts[id]);
        eitp__buffer_format(text,
                            ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": false, \"normalized\": false, "
                            "\"special\": %s}",
                            eitp__gguf_boolean(takes_left),
                            eitp__gguf_boolean(eitp__gguf_piece_type(pieces, id) != EITP__GGUF_USER_DEFINED));
        separator = ",\n";
    }
    eitp__buffer_add_text(text, "],\n");
}

/* ---- Normalizer ---- */

/* Lists the steps that prepare text for BPE. */
static size_t eitp__gguf_list_steps(const eitp__gguf_tokenizer *tokenizer, const char *steps[4]) {
    const int is_sentencepiece = tokenizer->kind == EITP__GGUF_SENTENCEPIECE;
    size_t count = 0;
    if (tokenizer->pre.is_nfc)
        steps[count++] = "{\"type\": \"NFC\"}";
    if (tokenizer->lowercases)
        steps[count++] = "{\"type\": \"Lowercase\"}";
    if (is_sentencepiece && tokenizer->adds_space)
        steps[count++] = "{\"type\": \"Prepend\", \"prepend\": " EITP__GGUF_SPACE_JSON "}";
    if (is_sentencepiece)
        steps[count++] =
            "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": " EITP__GGUF_SPACE_JSON "}";
    return count;
}

static void eitp__gguf_write_normalizer(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    const char *steps[4];
    const size_t count = eitp__gguf_list_steps(tokenizer, steps);
    eitp__buffer_add_text(text, "\"normalizer\": ");
    if (tokenizer->kind == EITP__GGUF_WORDPIECE) {
        eitp__buffer_format(text,
                            "{\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "
                            "\"strip_accents\": %s, \"lowercase\": %s},\n",
                            eitp__gguf_boolean(tokenizer->strips_accents), eitp__gguf_boolean(tokenizer->lowercases));
        return;
    }
    eitp__buffer_add_text(text, count > 1 ? "{\"type\": \"Sequence\", \"normalizers\": [" : count ? "" : "null");
    for (size_t i = 0; i < count; i++)
        eitp__buffer_format(text, "%s%s", i ? ", " : "", steps[i]);
    eitp__buffer_add_text(text, count > 1 ? "]},\n" : ",\n");
}

/* ---- Pre-tokenizer ---- */

#define EITP__GGUF_PATTERN(digits)                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static void eitp__gguf_write_byte_level(const char *name, int adds_space, int trims, int cuts, eitp__buffer *text) {
    eitp__buffer_format(text,
                        "%s{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": %s, \"use_regex\": "
                        "%s}",
                        name, eitp__gguf_boolean(adds_space), eitp__gguf_boolean(trims), eitp__gguf_boolean(cuts));
}

static void eitp__gguf_write_words(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    static const char *const patterns[] = {NULL, NULL, EITP__GGUF_PATTERN("\\p{N}"), EITP__GGUF_PATTERN("\\p{N}{1,3}")};
    const eitp__gguf_words words = tokenizer->pre.words;
    if (words == EITP__GGUF_WORDS_GPT2) {
        eitp__gguf_write_byte_level("", tokenizer->adds_space, 1, 1, text);
        return;
    }
    eitp__buffer_add_text(text, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    if (words == EITP__GGUF_WORDS_DIGITS) {
        eitp__buffer_add_text(text, "{\"type\": \"Digits\", \"individual_digits\": true}");
    } else {
        eitp__buffer_add_text(text, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        eitp__json_write_text(text, patterns[words], strlen(patterns[words]));
        eitp__buffer_add_text(text, "}, \"behavior\": \"Isolated\", \"invert\": false}");
    }
    eitp__gguf_write_byte_level(", ", 0, 1, words == EITP__GGUF_WORDS_DIGITS, text);
    eitp__buffer_add_text(text, "]}");
}

static void eitp__gguf_write_pre_tokenizer(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    eitp__buffer_add_text(text, "\"pre_tokenizer\": ");
    if (tokenizer->kind == EITP__GGUF_BYTE_LEVEL)
        eitp__gguf_write_words(tokenizer, text);
    else
        eitp__buffer_add_text(text,
                              tokenizer->kind == EITP__GGUF_WORDPIECE ? "{\"type\": \"BertPreTokenizer\"}" : "null");
    eitp__buffer_add_text(text, ",\n");
}

/* ---- Post-processor ---- */

/* The tokens of a sequence, in order; -1: the tokens of the text, -2: of the second text. */
typedef struct eitp__gguf_template {
    int64_t ids[8];
    size_t count, second; /* pieces; the first one of the second text */
} eitp__gguf_template;

static void eitp__gguf_template_add(eitp__gguf_template *pieces, int is_added, int64_t id) {
    if (is_added)
        pieces->ids[pieces->count++] = id;
}

/* Makes the template of one text or, if `has_pair`, two. Decoders have bos_token before either text, encoders only
   before the first. */
static void eitp__gguf_make_template(const eitp__gguf_tokenizer *tokenizer, int has_pair, eitp__gguf_template *pieces) {
    const int is_wordpiece = tokenizer->kind == EITP__GGUF_WORDPIECE;
    const int begins = is_wordpiece || tokenizer->adds_begin, ends = is_wordpiece || tokenizer->adds_end;
    const int64_t begin = tokenizer->ids[is_wordpiece ? EITP__GGUF_CLASSIFIER : EITP__GGUF_BEGIN];
    const int64_t end = tokenizer->ids[is_wordpiece ? EITP__GGUF_SEPARATOR : EITP__GGUF_END];
    const int64_t separator = tokenizer->ids[EITP__GGUF_SEPARATOR] < 0 ? end : tokenizer->ids[EITP__GGUF_SEPARATOR];
    memset(pieces, 0, sizeof *pieces);
    eitp__gguf_template_add(pieces, begins, begin);
    eitp__gguf_template_add(pieces, 1, -1);
    eitp__gguf_template_add(pieces, ends, end);
    pieces->second = pieces->count;
    if (!has_pair)
        return;
    eitp__gguf_template_add(pieces, !is_wordpiece && tokenizer->adds_separator, separator);
    pieces->second = pieces->count;
    eitp__gguf_template_add(pieces, begins && !is_wordpiece && !tokenizer->pre.encoder, begin);
    eitp__gguf_template_add(pieces, 1, -2);
    eitp__gguf_template_add(pieces, ends, end);
}

static void eitp__gguf_write_template(const eitp__gguf_tokenizer *tokenizer, const char *name,
                                      const eitp__gguf_template *pieces, eitp__buffer *text) {
    const int has_segments = tokenizer->pre.encoder != EITP__GGUF_ROBERTA;
    eitp__buffer_format(text, "\"%s\": [", name);
    for (size_t i = 0; i < pieces->count; i++) {
        const int64_t id = pieces->ids[i];
        eitp__buffer_format(text, "%s{\"%s\": {\"id\": ", i ? ", " : "", id < 0 ? "Sequence" : "SpecialToken");
        if (id < 0)
            eitp__buffer_add_text(text, id == -1 ? "\"A\"" : "\"B\"");
        else
            eitp__gguf_write_text(text, tokenizer->pieces.texts[id]);
        eitp__buffer_format(text, ", \"type_id\": %d}}", has_segments && i >= pieces->second);
    }
    eitp__buffer_add_text(text, "], ");
}

/* Adds the ids of the special tokens of a template. */
static void eitp__gguf_write_template_tokens(const eitp__gguf_tokenizer *tokenizer, const eitp__gguf_template *pieces,
                                             eitp__buffer *text) {
    const char *separator = "";
    eitp__buffer_add_text(text, "\"special_tokens\": {");
    for (size_t i = 0; i < pieces->count; i++) {
        const int64_t id = pieces->ids[i];
        size_t first = 0;
        while (pieces->ids[first] != id)
            first++;
        if (id < 0 || first < i)
            continue;
        eitp__buffer_add_text(text, separator);
        eitp__gguf_write_text(text, tokenizer->pieces.texts[id]);
        eitp__buffer_add_text(text, ": {\"id\": ");
        eitp__gguf_write_text(text, tokenizer->pieces.texts[id]);
        eitp__buffer_format(text, ", \"ids\": [%lld], \"tokens\": [", (long long)id);
        eitp__gguf_write_text(text, tokenizer->pieces.texts[id]);
        eitp__buffer_add_text(text, "]}");
        separator = ", ";
    }
    eitp__buffer_add_text(text, "}}");
}

static void eitp__gguf_write_post_processor(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    const int is_byte_level = tokenizer->kind == EITP__GGUF_BYTE_LEVEL;
    eitp__gguf_template single, pair;
    int has_template;
    eitp__gguf_make_template(tokenizer, 0, &single);
    eitp__gguf_make_template(tokenizer, 1, &pair);
    has_template = single.count > 1 || pair.count > 2;
    eitp__buffer_add_text(text, "\"post_processor\": ");
    eitp__buffer_add_text(text, !has_template && !is_byte_level ? "null" : "");
    if (is_byte_level)
        eitp__gguf_write_byte_level(has_template ? "{\"type\": \"Sequence\", \"processors\": [" : "", 1, 0, 1, text);
    if (has_template) {
        eitp__buffer_format(text, "%s{\"type\": \"TemplateProcessing\", ", is_byte_level ? ", " : "");
        eitp__gguf_write_template(tokenizer, "single", &single, text);
        eitp__gguf_write_template(tokenizer, "pair", &pair, text);
        eitp__gguf_write_template_tokens(tokenizer, &pair, text);
    }
    eitp__buffer_add_text(text, has_template && is_byte_level ? "]},\n" : ",\n");
}

/* ---- Decoder ---- */

static void eitp__gguf_write_decoder(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    eitp__buffer_add_text(text, "\"decoder\": ");
    if (tokenizer->kind == EITP__GGUF_BYTE_LEVEL)
        eitp__gguf_write_byte_level("", 1, 1, 1, text);
    else if (tokenizer->kind == EITP__GGUF_WORDPIECE)
        eitp__buffer_add_text(text, "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}");
    else
        eitp__buffer_format(
            text,
            "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
            "{\"String\": " EITP__GGUF_SPACE_JSON "}, \"content\": \" \"}, {\"type\": "
            "\"ByteFallback\"}, {\"type\": \"Fuse\"}%s]}",
            tokenizer->adds_space ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}" : "");
    eitp__buffer_add_text(text, ",\n");
}

/* ---- Model ---- */

/* Adds the token for unknown words or characters. Bytes that byte-level BPE lacks are dropped. */
static void eitp__gguf_write_unknown(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    eitp__buffer_add_text(text, "\"unk_token\": ");
    if (tokenizer->kind == EITP__GGUF_BYTE_LEVEL || tokenizer->ids[EITP__GGUF_UNKNOWN_TOKEN] < 0)
        eitp__buffer_add_text(text, "null");
    else
        eitp__gguf_write_text(text, eitp__gguf_role_text(tokenizer, EITP__GGUF_UNKNOWN_TOKEN));
}

static eitp_status eitp__gguf_write_model(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                          eitp_error *error) {
    const int is_sentencepiece = tokenizer->kind == EITP__GGUF_SENTENCEPIECE;
    const eitp__gguf_pieces *pieces = &tokenizer->pieces;
    eitp_status status = EITP_OK;
    eitp__buffer_format(text, "\"model\": {\"type\": \"%s\", ",
                        tokenizer->kind == EITP__GGUF_WORDPIECE ? "WordPiece" : "BPE");
    eitp__gguf_write_unknown(tokenizer, text);
    if (tokenizer->kind == EITP__GGUF_WORDPIECE)
        eitp__buffer_add_text(text, ", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100");
    else
        eitp__buffer_format(text,
                            ", \"dropout\": null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                            "\"fuse_unk\": %s, \"byte_fallback\": %s, \"ignore_merges\": %s",
                            eitp__gguf_boolean(is_sentencepiece), eitp__gguf_boolean(is_sentencepiece),
                            eitp__gguf_boolean(tokenizer->pre.ignores_merges));
    eitp__buffer_add_text(text, ", \"vocab\": {");
    for (size_t id = 0; id < pieces->count; id++) {
        eitp__buffer_add_text(text, id ? ",\n" : "\n");
        eitp__gguf_write_text(text, pieces->texts[id]);
        eitp__buffer_format(text, ": %zu", id);
    }
    eitp__buffer_add_text(text, "}");
    if (tokenizer->kind != EITP__GGUF_WORDPIECE) {
        eitp__buffer_add_text(text, ",\n\"merges\": ");
        status = eitp__gguf_write_merges(tokenizer, text, error);
    }
    eitp__buffer_add_text(text, "}");
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_write_tokenizer(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    eitp__gguf_tokenizer tokenizer;
    eitp_status status = eitp__gguf_tokenizer_read(gguf, &tokenizer, error);
    if (!status) {
        eitp__buffer_add_text(text, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n");
        eitp__gguf_write_added_tokens(&tokenizer, text);
        eitp__gguf_write_normalizer(&tokenizer, text);
        eitp__gguf_write_pre_tokenizer(&tokenizer, text);
        eitp__gguf_write_post_processor(&tokenizer, text);
        eitp__gguf_write_decoder(&tokenizer, text);
        status = eitp__gguf_write_model(&tokenizer, text, error);
        eitp__buffer_add_text(text, "}\n");
    }
    if (!status && text->failed)
        status = eitp__fail_memory(error, text->size, "the tokenizer of a GGUF file");
    if (!status)
        eitp__gguf_tokenizer_warn(&tokenizer);
    eitp__gguf_tokenizer_release(&tokenizer);
    return status;
}
