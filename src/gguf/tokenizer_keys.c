#include "gguf/tokenizer_keys.h"

#include "base/log.h"

#define EITP__GGUF_MODEL_KEY "tokenizer.ggml.model"
#define EITP__GGUF_PRE_KEY "tokenizer.ggml.pre"
#define EITP__GGUF_LOWERCASE_KEY "tokenizer.ggml.normalizer.lowercase"

#define EITP__GGUF_USE_ORIGINAL "use the tokenizer.json of the model that the file was converted from"

/* ---- The model ---- */

EITP__PRIVATE int eitp__gguf_has_tokenizer(const eitp__gguf *gguf) {
    eitp__gguf_text model = {"", 0};
    return !eitp__gguf_get_text(gguf, EITP__GGUF_MODEL_KEY, &model, NULL) && model.size &&
           !eitp__gguf_text_is(model, "none") && !eitp__gguf_text_is(model, "no_vocab");
}

static eitp_status eitp__gguf_read_model(eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    static const char *const names[EITP__GGUF_VOCABULARIES] = {"gpt2", "llama", "bert"};
    eitp__gguf_text model = {"", 0};
    const eitp_status status = eitp__gguf_get_text(tokenizer->gguf, EITP__GGUF_MODEL_KEY, &model, error);
    if (status)
        return status;
    for (int kind = 0; kind < EITP__GGUF_VOCABULARIES; kind++) {
        if (eitp__gguf_text_is(model, names[kind])) {
            tokenizer->kind = (eitp__gguf_vocabulary)kind;
            return EITP_OK;
        }
    }
    if (!eitp__gguf_has_tokenizer(tokenizer->gguf))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "the file has no tokenizer (key '%s' is %s); %s",
                          EITP__GGUF_MODEL_KEY, model.size ? "none" : "missing", EITP__GGUF_USE_ORIGINAL);
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "key '%s': unsupported tokenizer '%.*s' (supported: gpt2, llama and bert); %s",
                      EITP__GGUF_MODEL_KEY, eitp__gguf_shown(model), model.data, EITP__GGUF_USE_ORIGINAL);
}

/* ---- Words of byte-level BPE ---- */

static const eitp__gguf_pre eitp__gguf_pre_table[] = {
    {"gpt-2", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"phi-2", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"exaone4", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"mellum", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"jais", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"trillion", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"granite-docling", EITP__GGUF_WORDS_GPT2, 0, 0, 0, 0},
    {"mpt", EITP__GGUF_WORDS_GPT2, 1, 0, 0, 0},
    {"olmo", EITP__GGUF_WORDS_GPT2, 1, 0, 0, 0},
    {"modern-bert", EITP__GGUF_WORDS_GPT2, 1, 0, 0, EITP__GGUF_BERT},
    {"roberta-bpe", EITP__GGUF_WORDS_GPT2, 0, 0, 0, EITP__GGUF_ROBERTA},
    {"smollm", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"starcoder", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"refact", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"codeshell", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"exaone", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"minerva-7b", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"mellum2", EITP__GGUF_WORDS_DIGITS, 0, 0, 0, 0},
    {"command-r", EITP__GGUF_WORDS_DIGITS, 1, 0, 0, 0},
    {"qwen2", EITP__GGUF_WORDS_QWEN2, 1, 0, 0, 0},
    {"deepseek-r1-qwen", EITP__GGUF_WORDS_QWEN2, 1, 0, 0, 0},
    {"llama-bpe", EITP__GGUF_WORDS_LLAMA3, 0, 1, 1, 0},
    {"llama3", EITP__GGUF_WORDS_LLAMA3, 0, 1, 1, 0},
    {"llama-v3", EITP__GGUF_WORDS_LLAMA3, 0, 1, 1, 0},
    {"falcon3", EITP__GGUF_WORDS_LLAMA3, 0, 1, 1, 0},
    {"lfm2", EITP__GGUF_WORDS_LLAMA3, 0, 1, 1, 0},
    {"smaug-bpe", EITP__GGUF_WORDS_LLAMA3, 0, 0, 0, 0},
    {"dbrx", EITP__GGUF_WORDS_LLAMA3, 0, 0, 0, 0},
};

/* The value of tokenizer.ggml.pre in files from before that key, if the model leaves no doubt. */
static const struct {
    const char *architecture, *pre;
} eitp__gguf_assumed[] = {{"gpt2", "gpt-2"}, {"qwen2", "qwen2"}, {"qwen3", "qwen2"}, {"starcoder2", "starcoder"}};

static int eitp__gguf_find_pre(eitp__gguf_text name, eitp__gguf_pre *pre) {
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_pre_table); i++) {
        if (eitp__gguf_text_is(name, eitp__gguf_pre_table[i].name)) {
            *pre = eitp__gguf_pre_table[i];
            return 1;
        }
    }
    return 0;
}

/* Determines the words of a file that does not state them. */
static eitp_status eitp__gguf_assume_pre(eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    eitp__gguf_text architecture = {"", 0}, name;
    const eitp_status status = eitp__gguf_get_text(tokenizer->gguf, "general.architecture", &architecture, error);
    if (status)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_assumed); i++) {
        if (!eitp__gguf_text_is(architecture, eitp__gguf_assumed[i].architecture))
            continue;
        name.data = eitp__gguf_assumed[i].pre;
        name.size = strlen(name.data);
        eitp__gguf_find_pre(name, &tokenizer->pre);
        tokenizer->assumed = eitp__gguf_assumed[i].pre;
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "key '%s' does not state how text is cut into words; convert the model again with a current "
                      "convert_hf_to_gguf.py, or %s",
                      EITP__GGUF_PRE_KEY, EITP__GGUF_USE_ORIGINAL);
}

static eitp_status eitp__gguf_read_pre(eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    eitp__gguf_text name = {"", 0};
    const eitp_status status = eitp__gguf_get_text(tokenizer->gguf, EITP__GGUF_PRE_KEY, &name, error);
    if (status || tokenizer->kind != EITP__GGUF_BYTE_LEVEL)
        return status;
    if (!name.size || eitp__gguf_text_is(name, "default"))
        return eitp__gguf_assume_pre(tokenizer, error);
    if (eitp__gguf_find_pre(name, &tokenizer->pre))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "key '%s': unsupported '%.*s' (supported are, among others, gpt-2, smollm, qwen2, llama-bpe and "
                      "roberta-bpe); %s",
                      EITP__GGUF_PRE_KEY, eitp__gguf_shown(name), name.data, EITP__GGUF_USE_ORIGINAL);
}

/* ---- Special tokens ---- */

/* Names of the roles in both formats, and the usual ids of SentencePiece and WordPiece. */
static const struct {
    const char *name, *key;
    int sentencepiece, wordpiece;
} eitp__gguf_roles[EITP__GGUF_ROLES] = {
    {"bos_token", "tokenizer.ggml.bos_token_id", 1, -1},
    {"eos_token", "tokenizer.ggml.eos_token_id", 2, -1},
    {"unk_token", "tokenizer.ggml.unknown_token_id", 0, 100},
    {"pad_token", "tokenizer.ggml.padding_token_id", -1, 0},
    {"sep_token", "tokenizer.ggml.seperator_token_id", -1, 102},
    {"cls_token", "tokenizer.ggml.cls_token_id", -1, 101},
    {"mask_token", "tokenizer.ggml.mask_token_id", -1, 103},
};

EITP__PRIVATE const char *eitp__gguf_role_name(eitp__gguf_role role) {
    return eitp__gguf_roles[role].name;
}

EITP__PRIVATE eitp__gguf_text eitp__gguf_role_text(const eitp__gguf_tokenizer *tokenizer, eitp__gguf_role role) {
    return tokenizer->pieces.texts[tokenizer->ids[role]];
}

static eitp_status eitp__gguf_read_roles(eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    const int64_t last = (int64_t)tokenizer->pieces.count - 1;
    eitp_status status = EITP_OK;
    for (int role = 0; role < EITP__GGUF_ROLES && !status; role++) {
        const int64_t usual = tokenizer->kind == EITP__GGUF_SENTENCEPIECE ? eitp__gguf_roles[role].sentencepiece
                              : tokenizer->kind == EITP__GGUF_WORDPIECE   ? eitp__gguf_roles[role].wordpiece
                                                                          : -1;
        tokenizer->ids[role] = usual <= last ? usual : -1;
        status =
            eitp__gguf_get_integer(tokenizer->gguf, eitp__gguf_roles[role].key, 0, last, &tokenizer->ids[role], error);
    }
    if (!status && tokenizer->kind == EITP__GGUF_WORDPIECE &&
        !eitp__gguf_find(tokenizer->gguf, "tokenizer.ggml.cls_token_id") && tokenizer->ids[EITP__GGUF_BEGIN] >= 0)
        tokenizer->ids[EITP__GGUF_CLASSIFIER] = tokenizer->ids[EITP__GGUF_BEGIN];
    return status;
}

/* ---- Settings ---- */

static eitp_status eitp__gguf_read_flags(eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    const int is_sentencepiece = tokenizer->kind == EITP__GGUF_SENTENCEPIECE;
    const int is_wordpiece = tokenizer->kind == EITP__GGUF_WORDPIECE;
    const struct {
        const char *key;
        int *value;
        int usual; /* -1: as the one before */
    } flags[] = {
        {"tokenizer.ggml.add_bos_token", &tokenizer->adds_begin,
         is_sentencepiece || is_wordpiece || tokenizer->pre.adds_begin},
        {"tokenizer.ggml.add_eos_token", &tokenizer->adds_end, 0},
        {"tokenizer.ggml.add_sep_token", &tokenizer->adds_separator, tokenizer->pre.encoder == EITP__GGUF_ROBERTA},
        {"tokenizer.ggml.add_space_prefix", &tokenizer->adds_space, is_sentencepiece},
        {EITP__GGUF_LOWERCASE_KEY, &tokenizer->lowercases, is_wordpiece},
        {"tokenizer.ggml.normalizer.strip_accents", &tokenizer->strips_accents, -1},
    };
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(flags) && !status; i++) {
        *flags[i].value = flags[i].usual < 0 ? is_wordpiece && *flags[i - 1].value : flags[i].usual;
        status = eitp__gguf_get_flag(tokenizer->gguf, flags[i].key, flags[i].value, error);
    }
    return status;
}

static eitp_status eitp__gguf_refuse(const char *key, const char *value, const char *expected, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "key '%s': unsupported %s; it must be %s for this tokenizer", key,
                      value, expected);
}

/* Refuses settings that tokenizer.json cannot express. */
static eitp_status eitp__gguf_check_flags(const eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    const int is_wordpiece = tokenizer->kind == EITP__GGUF_WORDPIECE;
    int removes_spaces = 0;
    const eitp_status status =
        eitp__gguf_get_flag(tokenizer->gguf, "tokenizer.ggml.remove_extra_whitespaces", &removes_spaces, error);
    if (status)
        return status;
    if (removes_spaces && !is_wordpiece)
        return eitp__gguf_refuse("tokenizer.ggml.remove_extra_whitespaces", "true", "false", error);
    if (eitp__gguf_find(tokenizer->gguf, "tokenizer.ggml.precompiled_charsmap"))
        return eitp__gguf_refuse("tokenizer.ggml.precompiled_charsmap", "normalization", "missing", error);
    if (tokenizer->strips_accents && !is_wordpiece)
        return eitp__gguf_refuse("tokenizer.ggml.normalizer.strip_accents", "true", "false", error);
    if (is_wordpiece && !tokenizer->adds_begin)
        return eitp__gguf_refuse("tokenizer.ggml.add_bos_token", "false", "true", error);
    if (tokenizer->adds_space &&
        (is_wordpiece || (tokenizer->kind == EITP__GGUF_BYTE_LEVEL && tokenizer->pre.words != EITP__GGUF_WORDS_GPT2)))
        return eitp__gguf_refuse("tokenizer.ggml.add_space_prefix", "true", "false", error);
    return EITP_OK;
}

/* Checks that the tokens exist that are added to each text. */
static eitp_status eitp__gguf_check_added(const eitp__gguf_tokenizer *tokenizer, eitp_error *error) {
    static const char form[] = "key '%s' is missing: that token is added to each text";
    const int is_wordpiece = tokenizer->kind == EITP__GGUF_WORDPIECE;
    const struct {
        int is_needed;
        eitp__gguf_role role;
    } needs[] = {
        {!is_wordpiece && tokenizer->adds_begin, EITP__GGUF_BEGIN},
        {!is_wordpiece && tokenizer->adds_end, EITP__GGUF_END},
        {!is_wordpiece && tokenizer->adds_separator && tokenizer->ids[EITP__GGUF_END] < 0, EITP__GGUF_SEPARATOR},
        {is_wordpiece, EITP__GGUF_CLASSIFIER},
        {is_wordpiece, EITP__GGUF_SEPARATOR},
        {is_wordpiece, EITP__GGUF_UNKNOWN_TOKEN},
    };
    for (size_t i = 0; i < EITP__COUNT(needs); i++) {
        if (needs[i].is_needed && tokenizer->ids[needs[i].role] < 0)
            return eitp__fail(error, EITP_ERROR_FORMAT, form, eitp__gguf_roles[needs[i].role].key);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__gguf_tokenizer_read(const eitp__gguf *gguf, eitp__gguf_tokenizer *tokenizer,
                                                    eitp_error *error) {
    eitp_status status;
    memset(tokenizer, 0, sizeof *tokenizer);
    tokenizer->gguf = gguf;
    status = eitp__gguf_read_model(tokenizer, error);
    if (!status)
        status = eitp__gguf_read_pre(tokenizer, error);
    if (!status)
        status = eitp__gguf_pieces_read(gguf, tokenizer->kind, &tokenizer->pieces, error);
    if (!status)
        status = eitp__gguf_read_roles(tokenizer, error);
    if (!status)
        status = eitp__gguf_read_flags(tokenizer, error);
    if (!status)
        status = eitp__gguf_check_flags(tokenizer, error);
    if (!status)
        status = eitp__gguf_check_added(tokenizer, error);
    return status;
}

EITP__PRIVATE void eitp__gguf_tokenizer_release(eitp__gguf_tokenizer *tokenizer) {
    eitp__gguf_pieces_release(&tokenizer->pieces);
}

/* ---- Warnings ---- */

static int eitp__gguf_has_capitals(const eitp__gguf_pieces *pieces) {
    for (size_t id = 0; id < pieces->count; id++) {
        const eitp__gguf_text text = pieces->texts[id];
        for (size_t i = 0; i < text.size && !eitp__gguf_piece_is_added(pieces, id); i++) {
            if (text.data[i] >= 'A' && text.data[i] <= 'Z')
                return 1;
        }
    }
    return 0;
}

EITP__PRIVATE void eitp__gguf_tokenizer_warn(const eitp__gguf_tokenizer *tokenizer) {
    const eitp_host *host = &tokenizer->gguf->host;
    if (tokenizer->assumed)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "%s: key '%s' does not state how text is cut into words; '%s' is assumed, as usual for such "
                       "models",
                       tokenizer->gguf->files[0].path, EITP__GGUF_PRE_KEY, tokenizer->assumed);
    if (tokenizer->kind == EITP__GGUF_WORDPIECE && !eitp__gguf_find(tokenizer->gguf, EITP__GGUF_LOWERCASE_KEY) &&
        eitp__gguf_has_capitals(&tokenizer->pieces))
        eitp__log_line(host, EITP_LOG_WARNING,
                       "%s: text becomes lower case, since key '%s' is missing, but tokens have capital letters; "
                       "convert a cased model again with a current convert_hf_to_gguf.py",
                       tokenizer->gguf->files[0].path, EITP__GGUF_LOWERCASE_KEY);
}
