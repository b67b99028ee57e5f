/*
 * Special tokens, found as in transformers 4 and 5. tokenizer_config.json names each by a string or an object. If it
 * has no "added_tokens_decoder", special_tokens_map.json overrides it. For tokens named in neither,
 * generation_config.json and config.json of the model give ids.
 */
#include "text/special_tokens.h"
#include "gguf/model_json.h"

#include "base/files.h"
#include "text/tokenizer.h"

/* tokenizer_config.json is large if it contains chat templates. */
#define EITP__SPECIAL_FILE_LIMIT ((size_t)16777216)

EITP__PRIVATE const char *eitp__special_file_name(int file) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
                                        "config.json"};
    return names[file];
}

EITP__PRIVATE const char *eitp__special_token_name(eitp_special_token which) {
    static const char *const names[] = {"eos_token", "bos_token", "pad_token", "unk_token",
                                        "cls_token", "sep_token", "mask_token"};
    return names[which];
}

EITP__PRIVATE const char *eitp__family_token(int family, eitp_special_token which) {
    static const char *const names[][EITP_SPECIAL_TOKEN_COUNT] = {
        {EITP__END_OF_TEXT, EITP__END_OF_TEXT, NULL, EITP__END_OF_TEXT, NULL, NULL, NULL},
        {NULL, NULL, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
        {"</s>", "<s>", "<pad>", "<unk>", "<s>", "</s>", "<mask>"},
        {"</s>", "<s>", NULL, "<unk>", NULL, NULL, NULL},
        {"<eos>", "<bos>", "<pad>", "<unk>", NULL, NULL, "<mask>"},
    };
    return names[family][which];
}

static const eitp_json *eitp__special_member(const eitp__special_files *files, int file, const char *name) {
    return files->documents[file] ? eitp_json_member(eitp_json_root(files->documents[file]), name) : NULL;
}

static int eitp__text_is(const eitp_json *value, const char *text) {
    return value && value->kind == EITP_JSON_STRING && !strcmp(value->text, text);
}

EITP__PRIVATE int eitp__named_family(const eitp__special_files *files, const char **name) {
    static const struct {
        const char *class_name, *fast_name, *model_type;
        int family;
    } families[] = {
        {"GPT2Tokenizer", "GPT2TokenizerFast", "gpt2", EITP__FAMILY_GPT2},
        {"BertTokenizer", "BertTokenizerFast", "bert", EITP__FAMILY_BERT},
        {"DistilBertTokenizer", "DistilBertTokenizerFast", "distilbert", EITP__FAMILY_BERT},
        {"ElectraTokenizer", "ElectraTokenizerFast", "electra", EITP__FAMILY_BERT},
        {"RobertaTokenizer", "RobertaTokenizerFast", "roberta", EITP__FAMILY_ROBERTA},
    };
    const eitp_json *named = eitp__special_member(files, EITP__TOKENIZER_CONFIG, "tokenizer_class");
    const int is_class = named && named->kind == EITP_JSON_STRING;
    if (!is_class)
        named = eitp__special_member(files, EITP__MODEL_CONFIG, "model_type");
    *name = named && named->kind == EITP_JSON_STRING ? named->text : NULL;
    for (size_t i = 0; i < EITP__COUNT(families); i++) {
        if (is_class ? eitp__text_is(named, families[i].class_name) || eitp__text_is(named, families[i].fast_name)
                     : eitp__text_is(named, families[i].model_type))
            return families[i].family;
    }
    return -1;
}

static eitp_status eitp__special_file_read(const eitp_host *host, const char *path, eitp_json_document **document,
                                           eitp_error *error) {
    int exists = 0;
    eitp_status status = eitp__model_json_exists(host, path, &exists, error);
    if (status != EITP_OK || !exists)
        return status;
    status = eitp__model_json_read(host, path, EITP__SPECIAL_FILE_LIMIT, document, error);
    if (status == EITP_OK && eitp_json_root(*document)->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: must be a JSON object", path);
    return status;
}

EITP__PRIVATE eitp_status eitp__special_files_read(const eitp_host *host, const char *directory,
                                                   eitp__special_files *files, eitp_error *error) {
    for (int file = 0; file < EITP__SPECIAL_FILES; file++) {
        char *path = eitp__join_path(host, directory, eitp__special_file_name(file));
        eitp_status status = path ? eitp__special_file_read(host, path, &files->documents[file], error)
                                  : eitp__fail_memory(error, strlen(directory), "a path");
        eitp__release_text(host, path);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__special_files_release(eitp__special_files *files) {
    for (int file = 0; file < EITP__SPECIAL_FILES; file++) {
        eitp_json_release(files->documents[file]);
        files->documents[file] = NULL;
    }
}

EITP__PRIVATE const eitp_json *eitp__special_added_tokens(const eitp__special_files *files) {
    return eitp__special_member(files, EITP__TOKENIZER_CONFIG, "added_tokens_decoder");
}

EITP__PRIVATE const eitp_json *eitp__special_token_value(const eitp__special_files *files, eitp_special_token which,
                                                         int *file) {
    const char *name = eitp__special_token_name(which);
    const eitp_json *value = NULL;
    *file = EITP__SPECIAL_TOKENS_MAP;
    if (!eitp__special_added_tokens(files))
        value = eitp__special_member(files, *file, name);
    if (value)
        return value;
    *file = EITP__TOKENIZER_CONFIG;
    return eitp__special_member(files, *file, name);
}

EITP__PRIVATE int64_t eitp__special_token_id(const eitp__special_files *files, eitp_special_token which) {
    for (int file = EITP__GENERATION_CONFIG; file <= EITP__MODEL_CONFIG; file++) {
        char name[32];
        snprintf(name, sizeof name, "%s_id", eitp__special_token_name(which));
        const eitp_json *id = eitp__special_member(files, file, name);
        if (id && id->kind == EITP_JSON_ARRAY)
            id = id->first_child;
        if (id && id->kind == EITP_JSON_NUMBER && id->is_integer)
            return id->integer;
    }
    return -1;
}

EITP__PRIVATE eitp_status eitp__tokenizer_config_boolean(const eitp__special_files *files, const char *name, int *value,
                                                         eitp_error *error) {
    const eitp_json_document *document = files->documents[EITP__TOKENIZER_CONFIG];
    eitp_status status = document ? eitp__json_get_boolean(eitp_json_root(document), name, value, error) : EITP_OK;
    return status == EITP_OK ? status
                             : eitp__fail_prefix(error, status, "%s", eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

EITP__PRIVATE const eitp_json *eitp__tokenizer_config_member(const eitp__special_files *files, const char *name) {
    const eitp_json *value = eitp__special_member(files, EITP__TOKENIZER_CONFIG, name);
    return value && value->kind != EITP_JSON_NULL ? value : NULL;
}

/* True if eitp_tokenizer_save writes this member itself. With byte fallback, the first of these members do not override
   tokenizer.json. */
static int eitp__is_own_member(const eitp_json *member, int model) {
    static const char *const names[] = {"add_prefix_space", "do_lower_case", "strip_accents", "tokenize_chinese_chars"};
    for (size_t i = 0; i < EITP__COUNT(names) && model != EITP__MODEL_BYTE_FALLBACK; i++) {
        if (!strcmp(member->name, names[i]))
            return 1;
    }
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        if (!strcmp(member->name, eitp__special_token_name((eitp_special_token)which)))
            return 1;
    }
    return 0;
}

EITP__PRIVATE void eitp__special_files_keep(const eitp__special_files *files, int model, eitp__buffer *members) {
    const eitp_json_document *document = files->documents[EITP__TOKENIZER_CONFIG];
    const eitp_json *member = document ? eitp_json_root(document)->first_child : NULL;
    for (; member; member = member->next) {
        if (eitp__is_own_member(member, model))
            continue;
        eitp__buffer_add_text(members, ",\n");
        eitp__json_write_text(members, member->name, member->name_size);
        eitp__buffer_add_text(members, ": ");
        eitp__json_write_value(members, member);
    }
}
