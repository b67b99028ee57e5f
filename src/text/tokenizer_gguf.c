#include "text/tokenizer_gguf.h"
#include "gguf/tokenizer_pieces.h"
#include "text/tokenizer.h"

/* ---- Limits of the format ---- */

/* Returns tokenizer.ggml.pre, which names how byte-level BPE cuts text; NULL if the format has no name for it. */
static const char *eitp__gguf_pre_name(const eitp_tokenizer *tokenizer) {
    static const char *const names[EITP__SPLITS] = {"gpt-2", "smollm", "qwen2", "llama-bpe"};
    const int is_encoder = tokenizer->single.count > 1 && tokenizer->special[EITP_CLASSIFIER] >= 0 &&
                           tokenizer->single.pieces[0].id == tokenizer->special[EITP_CLASSIFIER];
    if (is_encoder && tokenizer->split == EITP__SPLIT_GPT2 && !tokenizer->ignores_merges)
        return tokenizer->family == EITP__FAMILY_ROBERTA ? "roberta-bpe" : "modern-bert";
    if (is_encoder)
        return NULL;
    if (tokenizer->split == EITP__SPLIT_LLAMA3 && !tokenizer->ignores_merges)
        return "smaug-bpe"; /* the same pattern, with merges */
    return tokenizer->ignores_merges && tokenizer->split != EITP__SPLIT_LLAMA3 ? NULL : names[tokenizer->split];
}

static eitp_status eitp__gguf_refuse_tokenizer(const char *reason, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "a GGUF file cannot describe this tokenizer: %s", reason);
}

/* True if normalization only composes characters, which runners leave out. */
static int eitp__gguf_only_composes(const eitp__normalization *steps) {
    for (size_t i = 0; i < steps->step_count; i++) {
        if (steps->steps[i] != EITP__FORM_C)
            return 0;
    }
    return !steps->is_bert;
}

static eitp_status eitp__gguf_check_tokenizer(const eitp_tokenizer *tokenizer, int64_t count, eitp_error *error) {
    const eitp__normalization *steps = &tokenizer->normalization;
    if ((int64_t)tokenizer->vocabulary.count > count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the tokenizer has %zu tokens, but the model only %lld",
                          tokenizer->vocabulary.count, (long long)count);
    if (tokenizer->model == EITP__MODEL_WORDPIECE) {
        if (!steps->is_bert || !steps->clean_text || !steps->handle_chinese_chars || steps->step_count)
            return eitp__gguf_refuse_tokenizer("its normalizer is not BERT's", error);
        if (tokenizer->wordpiece.prefix.size != 2 || memcmp(tokenizer->wordpiece.prefix.data, "##", 2))
            return eitp__gguf_refuse_tokenizer("tokens that continue a word do not start with ##", error);
        return EITP_OK;
    }
    if (!eitp__gguf_only_composes(steps))
        return eitp__gguf_refuse_tokenizer("its normalizer changes letters", error);
    if (tokenizer->model == EITP__MODEL_BPE && !eitp__gguf_pre_name(tokenizer))
        return eitp__gguf_refuse_tokenizer("its pattern with its use of merges has no name in the format", error);
    return EITP_OK;
}

/* ---- Tokens ---- */

static int eitp__gguf_bytes_start(const unsigned char *bytes, size_t size, const char *text) {
    const size_t length = strlen(text);
    return size >= length && !memcmp(bytes, text, length);
}

static int eitp__gguf_is_between(const unsigned char *bytes, size_t size, const char *start, const char *end) {
    const size_t first = strlen(start), last = strlen(end);
    return size >= first + last && !memcmp(bytes, start, first) && !memcmp(bytes + size - last, end, last);
}

/* True for a text such as <|im_start|>, which runners never show even if the tokenizer does not call it special. */
static int eitp__gguf_looks_special(const unsigned char *bytes, size_t size) {
    static const char *const forms[][2] = {{"<|", "|>"}, {"<\xef\xbd\x9c", "\xef\xbd\x9c>"}, {"<unused", ">"}};
    static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < EITP__COUNT(forms); i++) {
        if (eitp__gguf_is_between(bytes, size, forms[i][0], forms[i][1]))
            return 1;
    }
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (size == strlen(names[i]) && !memcmp(bytes, names[i], size))
            return 1;
    }
    return 0;
}

/* Returns the kind of token `id` in tokenizer.ggml.token_type. */
static int eitp__gguf_token_kind(const eitp_tokenizer *tokenizer, size_t id) {
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    const unsigned char *bytes = eitp__token_bytes(tokenizer, id);
    if (!(token->flags & EITP__TOKEN_PRESENT))
        return EITP__GGUF_UNUSED;
    if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK && (int32_t)id == tokenizer->special[EITP_UNKNOWN])
        return EITP__GGUF_UNKNOWN;
    if (token->flags & EITP__TOKEN_ADDED)
        return token->flags & EITP__TOKEN_SPECIAL || eitp__gguf_looks_special(bytes, token->size)
                   ? EITP__GGUF_CONTROL
                   : EITP__GGUF_USER_DEFINED;
    return tokenizer->model == EITP__MODEL_BYTE_FALLBACK && eitp__token_byte(tokenizer, (int32_t)id) >= 0
               ? EITP__GGUF_BYTE
               : EITP__GGUF_NORMAL;
}

/* Adds the spelling of a token to `text`. Added tokens are spelled as in a text: byte-level BPE has no characters for
   their bytes, and SentencePiece has spaces in place of U+2581. WordPiece has U+2581 at the start of words in place of
   ## elsewhere. */
static void eitp__gguf_spell(const eitp_tokenizer *tokenizer, size_t id, int kind, eitp__buffer *text) {
    const size_t mark = strlen(EITP__SPACE_TEXT);
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    const unsigned char *bytes = eitp__token_bytes(tokenizer, id);
    if (kind == EITP__GGUF_CONTROL || (kind == EITP__GGUF_USER_DEFINED && tokenizer->model == EITP__MODEL_BPE)) {
        eitp__buffer_add(text, bytes, token->size);
        return;
    }
    if (tokenizer->model == EITP__MODEL_BPE) {
        eitp__spell_token(tokenizer, id, text);
        return;
    }
    if (tokenizer->model == EITP__MODEL_WORDPIECE) {
        const int continues = eitp__wordpiece_continues(&tokenizer->wordpiece, bytes, token->size);
        eitp__buffer_add_text(text, continues ? "" : EITP__SPACE_TEXT);
        eitp__buffer_add(text, bytes + (continues ? 2 : 0), token->size - (continues ? 2 : 0));
        return;
    }
    for (size_t i = 0; i < token->size;) {
        const int is_space =
            kind == EITP__GGUF_USER_DEFINED && eitp__gguf_bytes_start(bytes + i, token->size - i, EITP__SPACE_TEXT);
        eitp__buffer_add(text, is_space ? (const unsigned char *)" " : bytes + i, 1);
        i += is_space ? mark : 1;
    }
}

/* Adds the tokens and their kinds. */
static eitp_status eitp__gguf_put_tokens(const eitp_tokenizer *tokenizer, size_t count, eitp__gguf_writer *writer,
                                         eitp_error *error) {
    eitp__buffer text;
    eitp__buffer_init(&text, &tokenizer->host);
    eitp__gguf_put_array(writer, "tokenizer.ggml.tokens", EITP__GGUF_STRING, count);
    for (size_t id = 0; id < count && !text.failed; id++) {
        const int kind =
            id < tokenizer->vocabulary.count ? eitp__gguf_token_kind(tokenizer, id) : (int)EITP__GGUF_UNUSED;
        eitp__buffer_clear(&text);
        if (kind == EITP__GGUF_UNUSED)
            eitp__buffer_format(&text, "[PAD%zu]", id);
        else
            eitp__gguf_spell(tokenizer, id, kind, &text);
        eitp__gguf_add_text(writer, text.size ? text.data : "", text.size);
    }
    if (text.failed)
        return eitp__fail_memory(error, text.size, "a token");
    eitp__buffer_release(&text);
    eitp__gguf_put_array(writer, "tokenizer.ggml.token_type", EITP__GGUF_I32, count);
    for (size_t id = 0; id < count; id++)
        eitp__gguf_add_integer(writer, EITP__GGUF_I32,
                               id < tokenizer->vocabulary.count ? eitp__gguf_token_kind(tokenizer, id)
                                                                : (int)EITP__GGUF_UNUSED);
    return EITP_OK;
}

/* ---- Merges ---- */

static eitp_status eitp__gguf_put_merges(const eitp_tokenizer *tokenizer, eitp__gguf_writer *writer,
                                         eitp_error *error) {
    const eitp__bpe *bpe = &tokenizer->bpe;
    eitp__buffer text;
    eitp__buffer_init(&text, &tokenizer->host);
    eitp__gguf_put_array(writer, "tokenizer.ggml.merges", EITP__GGUF_STRING, bpe->merge_count);
    for (size_t rank = 0; rank < bpe->merge_count && !text.failed; rank++) {
        eitp__buffer_clear(&text);
        eitp__spell_token(tokenizer, (size_t)bpe->merges[rank].left, &text);
        eitp__buffer_add_text(&text, " ");
        eitp__spell_token(tokenizer, (size_t)bpe->merges[rank].right, &text);
        eitp__gguf_add_text(writer, text.data, text.size);
    }
    if (text.failed)
        return eitp__fail_memory(error, text.size, "a merge");
    eitp__buffer_release(&text);
    return EITP_OK;
}

/* SentencePiece merges the pair whose result has the highest score: minus the rank of its first merge. */
static eitp_status eitp__gguf_put_scores(const eitp_tokenizer *tokenizer, size_t count, eitp__gguf_writer *writer,
                                         eitp_error *error) {
    const eitp__bpe *bpe = &tokenizer->bpe;
    float *scores = (float *)eitp__allocate(&tokenizer->host, count * sizeof *scores);
    if (!scores)
        return eitp__fail_memory(error, count * sizeof *scores, "the scores of tokens");
    for (size_t rank = bpe->merge_count; rank-- > 0;)
        scores[bpe->merges[rank].result] = -(float)(rank + 1);
    eitp__gguf_put_array(writer, "tokenizer.ggml.scores", EITP__GGUF_F32, count);
    for (size_t id = 0; id < count; id++)
        eitp__gguf_add_f32(writer, scores[id]);
    eitp__release(&tokenizer->host, scores, count * sizeof *scores);
    return EITP_OK;
}

/* ---- Special tokens ---- */

/* Returns a special token, or for encoders without it the one that takes its place: runners put bos and eos around a
   text. */
static int32_t eitp__gguf_special(const eitp_tokenizer *tokenizer, eitp_special_token which) {
    const int32_t id = tokenizer->special[which];
    if (id >= 0)
        return id;
    return which == EITP_BEGIN_OF_TEXT ? tokenizer->special[EITP_CLASSIFIER]
           : which == EITP_END_OF_TEXT ? tokenizer->special[EITP_SEPARATOR]
                                       : -1;
}

static void eitp__gguf_put_specials(const eitp_tokenizer *tokenizer, int32_t end_of_turn, eitp__gguf_writer *writer) {
    static const struct {
        eitp_special_token which;
        const char *key;
    } keys[] = {
        {EITP_BEGIN_OF_TEXT, "tokenizer.ggml.bos_token_id"}, {EITP_END_OF_TEXT, "tokenizer.ggml.eos_token_id"},
        {EITP_UNKNOWN, "tokenizer.ggml.unknown_token_id"},   {EITP_SEPARATOR, "tokenizer.ggml.seperator_token_id"},
        {EITP_PADDING, "tokenizer.ggml.padding_token_id"},   {EITP_CLASSIFIER, "tokenizer.ggml.cls_token_id"},
        {EITP_MASK, "tokenizer.ggml.mask_token_id"},
    };
    for (size_t i = 0; i < EITP__COUNT(keys); i++) {
        const int32_t id = eitp__gguf_special(tokenizer, keys[i].which);
        if (id >= 0)
            eitp__gguf_put_integer(writer, keys[i].key, EITP__GGUF_U32, id);
    }
    if (end_of_turn >= 0)
        eitp__gguf_put_integer(writer, "tokenizer.ggml.eot_token_id", EITP__GGUF_U32, end_of_turn);
}

static void eitp__gguf_put_switch(eitp__gguf_writer *writer, const char *key, int is_on) {
    eitp__gguf_put_integer(writer, key, EITP__GGUF_BOOL, is_on != 0);
}

/* True if a pair has two special tokens in the middle. */
static int eitp__gguf_separates_twice(const eitp__template *pair) {
    for (size_t i = 0; i + 2 < pair->count; i++) {
        if (pair->pieces[i].id == EITP__TEMPLATE_FIRST)
            return pair->pieces[i + 1].id >= 0 && pair->pieces[i + 2].id >= 0;
    }
    return 0;
}

/* Adds the tokens and spaces that are put around a text. Runners do this themselves for WordPiece. */
static void eitp__gguf_put_switches(const eitp_tokenizer *tokenizer, eitp__gguf_writer *writer) {
    const eitp__template *single = &tokenizer->single;
    const eitp__normalization *steps = &tokenizer->normalization;
    const int strips = steps->strip_accents < 0 ? steps->lowercase : steps->strip_accents;
    if (tokenizer->model == EITP__MODEL_WORDPIECE) {
        eitp__gguf_put_switch(writer, "tokenizer.ggml.normalizer.lowercase", steps->lowercase);
        eitp__gguf_put_switch(writer, "tokenizer.ggml.normalizer.strip_accents", strips);
        return;
    }
    eitp__gguf_put_switch(writer, "tokenizer.ggml.add_bos_token", single->count > 1 && single->pieces[0].id >= 0);
    eitp__gguf_put_switch(writer, "tokenizer.ggml.add_eos_token",
                          single->count > 1 && single->pieces[single->count - 1].id >= 0);
    if (eitp__gguf_special(tokenizer, EITP_SEPARATOR) >= 0)
        eitp__gguf_put_switch(writer, "tokenizer.ggml.add_sep_token", eitp__gguf_separates_twice(&tokenizer->pair));
    eitp__gguf_put_switch(writer, "tokenizer.ggml.add_space_prefix",
                          tokenizer->add_prefix_space != EITP__PREFIX_NONE || steps->prepends_space);
}

EITP__PRIVATE eitp_status eitp__gguf_put_tokenizer(const eitp_tokenizer *tokenizer, int64_t count, int32_t end_of_turn,
                                                   eitp__gguf_writer *writer, eitp_error *error) {
    static const char *const models[] = {"gpt2", "bert", "llama"}; /* by EITP__MODEL_... */
    const char *model = models[tokenizer->model];
    const char *pre = tokenizer->model == EITP__MODEL_BPE ? eitp__gguf_pre_name(tokenizer) : "default";
    eitp_status status = eitp__gguf_check_tokenizer(tokenizer, count, error);
    if (status)
        return status;
    eitp__gguf_put_text(writer, "tokenizer.ggml.model", model, strlen(model));
    eitp__gguf_put_text(writer, "tokenizer.ggml.pre", pre, strlen(pre));
    status = eitp__gguf_put_tokens(tokenizer, (size_t)count, writer, error);
    if (!status && tokenizer->model == EITP__MODEL_BPE)
        status = eitp__gguf_put_merges(tokenizer, writer, error);
    if (!status && tokenizer->model == EITP__MODEL_BYTE_FALLBACK)
        status = eitp__gguf_put_scores(tokenizer, (size_t)count, writer, error);
    eitp__gguf_put_specials(tokenizer, end_of_turn, writer);
    eitp__gguf_put_switches(tokenizer, writer);
    if (tokenizer->chat_template.size)
        eitp__gguf_put_text(writer, "tokenizer.chat_template", tokenizer->chat_template.data,
                            tokenizer->chat_template.size);
    return status;
}
