/* Loading a tokenizer from a tokenizer.json, from vocab.txt, or from vocab.json and merges.txt. */
#include "base/files.h"
#include "gguf/model_json.h"
#include "text/template_file.h"
#include "text/loader.h"

/* The lines of merges.txt. */
typedef struct eitp__merge_lines {
    const char *text;
    size_t size, at, line;
} eitp__merge_lines;

/* Finds the next line that is a merge. Returns 0 at the end. */
static int eitp__next_merge_line(eitp__merge_lines *lines, const char **text, size_t *size) {
    while (lines->at < lines->size) {
        const char *begin = lines->text + lines->at;
        const char *end = (const char *)memchr(begin, '\n', lines->size - lines->at);
        size_t length = end ? (size_t)(end - begin) : lines->size - lines->at;
        lines->at += length + (end != NULL);
        lines->line++;
        if (length && begin[length - 1] == '\r')
            length--;
        if (!length || (lines->line == 1 && length >= 8 && !memcmp(begin, "#version", 8)))
            continue;
        *text = begin;
        *size = length;
        return 1;
    }
    return 0;
}

static eitp_status eitp__load_text_merges(eitp__loader *loader, eitp__merge_lines lines, eitp_error *error) {
    const char *text;
    size_t size, rank = 0;
    while (eitp__next_merge_line(&lines, &text, &size)) {
        const char *space = (const char *)memchr(text, ' ', size);
        if (!space)
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: \"%.*s\" must be two tokens separated by a space",
                              lines.line, eitp__excerpt_size(size), text);
        size_t left = (size_t)(space - text);
        eitp_status status =
            eitp__load_merge(loader, rank++, lines.line, text, left, space + 1, size - left - 1, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Refuses add_bos_token, which transformers applies without a tokenizer.json. */
static eitp_status eitp__check_add_bos(const eitp__loader *loader, eitp_error *error) {
    int adds = 0;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "add_bos_token", &adds, error);
    if (status != EITP_OK || !adds)
        return status;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "%s: unsupported add_bos_token, which adds the bos_token to each text; it must be false",
                      eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

static eitp_status eitp__load_vocab_merges_content(eitp__loader *loader, const eitp_json *vocabulary,
                                                   const eitp__buffer *merges, const char *vocabulary_path,
                                                   const char *merges_path, eitp_error *error) {
    eitp__merge_lines lines = EITP__ZERO;
    const char *text, *name;
    const int family = eitp__named_family(loader->files, &name);
    size_t size, merge_count = 0;
    lines.text = merges->data;
    lines.size = merges->size;
    eitp__merge_lines counted = lines;
    while (eitp__next_merge_line(&counted, &text, &size))
        merge_count++;
    eitp_status status = eitp__load_vocabulary(loader, vocabulary, 0, merge_count, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", vocabulary_path);
    status = eitp__load_text_merges(loader, lines, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", merges_path);
    status = eitp__load_family(loader, family == EITP__FAMILY_ROBERTA ? family : EITP__FAMILY_GPT2, error);
    if (status == EITP_OK)
        status = eitp__check_add_bos(loader, error);
    if (status == EITP_OK)
        status = eitp__load_defaults(loader, NULL, error);
    if (status == EITP_OK)
        status = eitp__load_special_tokens(loader, error);
    return status == EITP_OK ? status : eitp__fail_prefix(error, status, "%s, %s", vocabulary_path, merges_path);
}

static eitp_status eitp__load_vocab_merges(const eitp_host *host, const char *vocabulary_path, const char *merges_path,
                                           const eitp__special_files *files, eitp_tokenizer **out, eitp_error *error) {
    eitp_json_document *document;
    eitp__loader loader;
    eitp__buffer merges;
    eitp_status status =
        eitp__json_read_strict_file(host, vocabulary_path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_init(&merges, host);
    eitp__loader_init(&loader, host, files);
    status = eitp__read_file(host, merges_path, EITP__TOKENIZER_FILE_LIMIT, &merges, error);
    if (status == EITP_OK)
        status = eitp__load_vocab_merges_content(&loader, eitp_json_root(document), &merges, vocabulary_path,
                                                 merges_path, error);
    status = eitp__loader_finish(&loader, status, out);
    eitp__buffer_release(&merges);
    eitp_json_release(document);
    return status;
}

/* Files of a tokenizer in a directory. */
enum {
    EITP__TOKENIZER_JSON,
    EITP__VOCAB_TXT,
    EITP__VOCAB_JSON,
    EITP__MERGES_TXT,
    EITP__ADDED_JSON,
    EITP__SENTENCEPIECE,
    EITP__TOKENIZER_FILES
};

/* Chooses between vocab.txt and vocab.json with merges.txt; a directory may have both. Neither defines how text is cut
   into pieces: the named class, or else the model, does. */
static eitp_status eitp__choose_vocabulary(const char *directory, const eitp__special_files *files, int has_words,
                                           int has_bytes, int *words, eitp_error *error) {
    const char *name;
    const int family = eitp__named_family(files, &name);
    const int is_bytes = family == EITP__FAMILY_GPT2 || family == EITP__FAMILY_ROBERTA;
    *words = has_words && !(has_bytes && is_bytes);
    if (!has_words && !has_bytes)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: no tokenizer found; expected tokenizer.json, vocab.txt, or vocab.json and merges.txt",
                          directory);
    /* PreTrainedTokenizerFast reads everything from tokenizer.json; eitp_tokenizer_save names it for tokenizers it
       trained. */
    if (name && (*words ? family != EITP__FAMILY_BERT : !is_bytes && strcmp(name, "PreTrainedTokenizerFast") != 0))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "%s: unsupported tokenizer \"%.80s\" with %s, which must be %s; save the tokenizer as tokenizer.json",
            directory, name, *words ? "a vocab.txt" : "vocab.json and merges.txt",
            *words ? "a BertTokenizer" : "a GPT2Tokenizer or RobertaTokenizer");
    return EITP_OK;
}

static eitp_status eitp__load_from_directory(const eitp_host *host, const char *directory, char *const *paths,
                                             const eitp__special_files *files, eitp_tokenizer **out,
                                             eitp_error *error) {
    eitp_path_info info[EITP__TOKENIZER_FILES];
    int words = 0;
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        eitp_status status = eitp__path_info(host, paths[i], &info[i], error);
        if (status != EITP_OK)
            return status;
    }
    if (info[EITP__TOKENIZER_JSON].kind != EITP_PATH_MISSING)
        return eitp__load_tokenizer_json(host, paths[EITP__TOKENIZER_JSON], files, out, error);
    if (info[EITP__SENTENCEPIECE].kind != EITP_PATH_MISSING && info[EITP__VOCAB_TXT].kind == EITP_PATH_MISSING &&
        info[EITP__VOCAB_JSON].kind == EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: unsupported without a tokenizer.json; write one with transformers: "
                          "AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)",
                          paths[EITP__SENTENCEPIECE]);
    eitp_status chosen = eitp__choose_vocabulary(directory, files, info[EITP__VOCAB_TXT].kind != EITP_PATH_MISSING,
                                                 info[EITP__VOCAB_JSON].kind != EITP_PATH_MISSING &&
                                                     info[EITP__MERGES_TXT].kind != EITP_PATH_MISSING,
                                                 &words, error);
    if (chosen != EITP_OK)
        return chosen;
    if (info[EITP__ADDED_JSON].kind != EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: unsupported without a tokenizer.json; save the tokenizer as tokenizer.json",
                          paths[EITP__ADDED_JSON]);
    if (words)
        return eitp__load_vocab_txt(host, paths[EITP__VOCAB_TXT], files, out, error);
    return eitp__load_vocab_merges(host, paths[EITP__VOCAB_JSON], paths[EITP__MERGES_TXT], files, out, error);
}

static eitp_status eitp__load_directory(const eitp_host *host, const char *directory, eitp_tokenizer **out,
                                        eitp_error *error) {
    static const char *const names[] = {"tokenizer.json", "vocab.txt",         "vocab.json",
                                        "merges.txt",     "added_tokens.json", "tokenizer.model"};
    eitp__special_files files = EITP__ZERO;
    char *paths[EITP__TOKENIZER_FILES];
    int complete = 1;
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        paths[i] = eitp__join_path(host, directory, names[i]);
        complete = complete && paths[i];
    }
    eitp_status status = complete ? eitp__special_files_read(host, directory, &files, error)
                                  : eitp__fail_memory(error, strlen(directory), "a path");
    if (status == EITP_OK)
        status = eitp__load_from_directory(host, directory, paths, &files, out, error);
    if (status == EITP_OK)
        status = eitp__load_chat_template(directory, &files, *out, error);
    eitp__special_files_release(&files);
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++)
        eitp__release_text(host, paths[i]);
    return status;
}

/* Loads a tokenizer.json of any name. If it has that name, the files next to it belong to it. */
static eitp_status eitp__load_file(const eitp_host *host, const char *path, eitp_tokenizer **out, eitp_error *error) {
    static const char name[] = "tokenizer.json";
    const char *slash = strrchr(path, '/');
    const int has_others = !strcmp(slash ? slash + 1 : path, name);
    eitp__special_files files = EITP__ZERO;
    char *directory = slash ? eitp__copy_bytes(host, path, (size_t)(slash - path) + 1) : eitp__copy_text(host, ".");
    eitp_status status = directory ? EITP_OK : eitp__fail_memory(error, strlen(path), "a path");
    if (status == EITP_OK && has_others)
        status = eitp__special_files_read(host, directory, &files, error);
    if (status == EITP_OK)
        status = eitp__load_tokenizer_json(host, path, &files, out, error);
    if (status == EITP_OK && has_others)
        status = eitp__load_chat_template(directory, &files, *out, error);
    eitp__special_files_release(&files);
    eitp__release_text(host, directory);
    return status;
}

/* Loads the tokenizer of a GGUF file, whose tokenizer_config.json names all special tokens: the model may be one that
   eitp does not have. */
static eitp_status eitp__load_in_file(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                      eitp_error *error) {
    eitp__special_files files = EITP__ZERO;
    char *config = eitp__join_path(host, path, eitp__special_file_name(EITP__TOKENIZER_CONFIG));
    char *tokenizer = eitp__join_path(host, path, "tokenizer.json");
    eitp_status status = config && tokenizer ? eitp__model_json_read(host, config, EITP__TOKENIZER_FILE_LIMIT,
                                                                     &files.documents[EITP__TOKENIZER_CONFIG], error)
                                             : eitp__fail_memory(error, strlen(path), "a path");
    if (status == EITP_OK)
        status = eitp__load_tokenizer_json(host, tokenizer, &files, out, error);
    if (status == EITP_OK)
        status = eitp__load_chat_template(path, &files, *out, error);
    eitp__special_files_release(&files);
    eitp__release_text(host, config);
    eitp__release_text(host, tokenizer);
    return status;
}

eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out, eitp_error *error) {
    eitp_path_info info;
    int is_gguf;
    if (!host || !path || !out)
        return eitp__fail_null(error, "eitp_tokenizer_load", "host, path and out");
    *out = NULL;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (status != EITP_OK)
        return status;
    status = eitp__model_is_file(host, path, &is_gguf, error);
    if (status == EITP_OK)
        status = is_gguf                            ? eitp__load_in_file(host, path, out, error)
                 : info.kind == EITP_PATH_DIRECTORY ? eitp__load_directory(host, path, out, error)
                                                    : eitp__load_file(host, path, out, error);
    if (status != EITP_OK) {
        eitp_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}
