/* Writing tokenizer_config.json and tokenizer.json, and the vocabulary in separate files. */
#include "base/files.h"
#include "base/json.h"
#include "base/unicode.h"
#include "text/template_file.h"
#include "text/tokenizer.h"

EITP__PRIVATE void eitp__spell_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling) {
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    const unsigned char *bytes = eitp__token_bytes(tokenizer, id);
    if (token->flags & EITP__TOKEN_VERBATIM) {
        eitp__buffer_add(spelling, bytes, token->size);
        return;
    }
    for (size_t i = 0; i < token->size; i++) {
        unsigned char character[4];
        size_t size = eitp__utf8_encode(eitp__byte_to_character(bytes[i]), character);
        eitp__buffer_add(spelling, character, size);
    }
}

static void eitp__write_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_clear(spelling);
    eitp__spell_token(tokenizer, id, spelling);
    eitp__json_write_text(out, spelling->size ? spelling->data : "", spelling->size);
    out->failed |= spelling->failed;
}

/* True if the model's vocabulary has the token: false for added tokens outside it and for gaps. */
static int eitp__is_model_token(const eitp_tokenizer *tokenizer, size_t id) {
    return (tokenizer->vocabulary.tokens[id].flags & (EITP__TOKEN_PRESENT | EITP__TOKEN_NOT_IN_MODEL)) ==
           EITP__TOKEN_PRESENT;
}

/* Writes the model's vocabulary: {"token":id,...}. */
static void eitp__write_vocabulary(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *separator = "{\n";
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        if (!eitp__is_model_token(tokenizer, id))
            continue;
        eitp__buffer_add_text(out, separator);
        eitp__write_token(tokenizer, id, spelling, out);
        eitp__buffer_format(out, ":%zu", id);
        separator = ",\n";
    }
    eitp__buffer_add_text(out, "\n}");
}

static void eitp__write_text_merges(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    eitp__buffer_add_text(out, "#version: 0.2\n");
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        eitp__spell_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].left, out);
        eitp__buffer_add_text(out, " ");
        eitp__spell_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].right, out);
        eitp__buffer_add_text(out, "\n");
    }
}

static void eitp__write_json_merges(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_add_text(out, "[");
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        eitp__buffer_add_text(out, rank ? ",\n[" : "\n[");
        eitp__write_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].left, spelling, out);
        eitp__buffer_add_text(out, ",");
        eitp__write_token(tokenizer, (size_t)tokenizer->bpe.merges[rank].right, spelling, out);
        eitp__buffer_add_text(out, "]");
    }
    eitp__buffer_add_text(out, "\n]");
}

static const char *eitp__truth(int value) {
    return value ? "true" : "false";
}

static void eitp__write_token_flags(const eitp__token *token, eitp__buffer *out) {
    eitp__buffer_format(
        out, ",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,\"normalized\":%s,\"special\":%s",
        eitp__truth(token->flags & EITP__TOKEN_WORD), eitp__truth(token->flags & EITP__TOKEN_TAKES_LEFT),
        eitp__truth(token->flags & EITP__TOKEN_TAKES_RIGHT), eitp__truth(token->flags & EITP__TOKEN_NORMALIZED),
        eitp__truth(token->flags & EITP__TOKEN_SPECIAL));
}

static void eitp__write_added_tokens(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    const char *separator = "\n";
    eitp__buffer_add_text(out, "[");
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        const eitp__token *token = &tokenizer->vocabulary.tokens[id];
        if (!(token->flags & EITP__TOKEN_ADDED))
            continue;
        eitp__buffer_format(out, "%s{\"id\":%zu,\"content\":", separator, id);
        eitp__json_write_text(out, (const char *)eitp__token_bytes(tokenizer, id), token->size);
        eitp__write_token_flags(token, out);
        eitp__buffer_add_text(out, "}");
        separator = ",\n";
    }
    eitp__buffer_add_text(out, "]");
}

/* Writes a part unchanged, or `missing` if the tokenizer has none. */
static void eitp__write_kept(const eitp_tokenizer *tokenizer, int part, const char *missing, eitp__buffer *out) {
    const eitp__buffer *kept = &tokenizer->kept[part];
    eitp__buffer_format(out, "\"%s\":", eitp__preserved_part_name(part));
    if (kept->size)
        eitp__buffer_add(out, kept->data, kept->size);
    else
        eitp__buffer_add_text(out, missing);
    eitp__buffer_add_text(out, ",\n");
}

/* Writes the model for both kinds of BPE. */
static void eitp__write_bpe_model(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_add_text(out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (tokenizer->bpe.unknown >= 0)
        eitp__write_token(tokenizer, (size_t)tokenizer->bpe.unknown, spelling, out);
    else
        eitp__buffer_add_text(out, "null");
    eitp__buffer_format(out,
                        ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,"
                        "\"byte_fallback\":%s,\"ignore_merges\":%s,\n\"vocab\":",
                        eitp__truth(tokenizer->bpe.fuses_unknown),
                        eitp__truth(tokenizer->model == EITP__MODEL_BYTE_FALLBACK),
                        eitp__truth(tokenizer->ignores_merges));
    eitp__write_vocabulary(tokenizer, spelling, out);
    eitp__buffer_add_text(out, ",\n\"merges\":");
    eitp__write_json_merges(tokenizer, spelling, out);
}

/* Writes byte-level BPE, with its other parts. */
static void eitp__write_bpe(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *prefix = eitp__truth(tokenizer->add_prefix_space);
    char part[160];
    eitp__write_normalizer(tokenizer, out);
    snprintf(part, sizeof part,
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":true}", prefix);
    eitp__write_kept(tokenizer, EITP__KEPT_PRE_TOKENIZER, part, out);
    snprintf(part, sizeof part,
             "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": false, \"use_regex\": true}",
             prefix);
    eitp__write_kept(tokenizer, EITP__KEPT_POST_PROCESSOR, part, out);
    snprintf(part, sizeof part,
             "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, \"use_regex\": true}",
             prefix);
    eitp__write_kept(tokenizer, EITP__KEPT_DECODER, part, out);
    eitp__write_bpe_model(tokenizer, spelling, out);
}

/* Writes BPE with byte fallback, with its other parts. */
static void eitp__write_fallback(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__write_normalizer(tokenizer, out);
    eitp__write_kept(tokenizer, EITP__KEPT_PRE_TOKENIZER, "null", out);
    eitp__write_kept(tokenizer, EITP__KEPT_POST_PROCESSOR, "null", out);
    eitp__write_kept(tokenizer, EITP__KEPT_DECODER, "null", out);
    eitp__write_bpe_model(tokenizer, spelling, out);
}

static const char *eitp__accents(const eitp__normalization *steps) {
    return steps->strip_accents < 0 ? "null" : eitp__truth(steps->strip_accents);
}

/* Writes WordPiece, with its other parts. */
static void eitp__write_words(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const eitp__wordpiece *wordpiece = &tokenizer->wordpiece;
    eitp__write_normalizer(tokenizer, out);
    eitp__buffer_add_text(out, "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\n");
    eitp__write_kept(tokenizer, EITP__KEPT_POST_PROCESSOR, "null", out);
    eitp__write_kept(tokenizer, EITP__KEPT_DECODER, "null", out);
    eitp__buffer_add_text(out, "\"model\":{\"type\":\"WordPiece\",\"unk_token\":");
    eitp__write_token(tokenizer, (size_t)wordpiece->unknown, spelling, out);
    eitp__buffer_add_text(out, ",\"continuing_subword_prefix\":");
    eitp__json_write_text(out, wordpiece->prefix.size ? wordpiece->prefix.data : "", wordpiece->prefix.size);
    eitp__buffer_format(
        out, ",\"max_input_chars_per_word\":%llu,\n\"vocab\":", (unsigned long long)wordpiece->max_characters);
    eitp__write_vocabulary(tokenizer, spelling, out);
}

static void eitp__write_tokenizer(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    eitp__buffer_add_text(out, "{\n\"version\":\"1.0\",\n");
    eitp__write_kept(tokenizer, EITP__KEPT_TRUNCATION, "null", out);
    eitp__write_kept(tokenizer, EITP__KEPT_PADDING, "null", out);
    eitp__buffer_add_text(out, "\"added_tokens\":");
    eitp__write_added_tokens(tokenizer, out);
    eitp__buffer_add_text(out, ",\n");
    if (tokenizer->model == EITP__MODEL_BPE)
        eitp__write_bpe(tokenizer, spelling, out);
    else if (tokenizer->model == EITP__MODEL_BYTE_FALLBACK)
        eitp__write_fallback(tokenizer, spelling, out);
    else
        eitp__write_words(tokenizer, spelling, out);
    eitp__buffer_add_text(out, "}\n}\n");
}

/* Writes a special token in tokenizer_config.json: its text, or an object if white space belongs to it, or it is
   recognized in normalized text or only as a separate word. */
static void eitp__write_special(const eitp_tokenizer *tokenizer, int32_t id, eitp__buffer *out) {
    const unsigned unusual =
        EITP__TOKEN_TAKES_LEFT | EITP__TOKEN_TAKES_RIGHT | EITP__TOKEN_NORMALIZED | EITP__TOKEN_WORD;
    if (id < 0) {
        eitp__buffer_add_text(out, "null");
        return;
    }
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    const int is_object = (token->flags & EITP__TOKEN_ADDED) && (token->flags & unusual);
    if (is_object)
        eitp__buffer_add_text(out, "{\"__type\":\"AddedToken\",\"content\":");
    eitp__json_write_text(out, (const char *)eitp__token_bytes(tokenizer, (size_t)id), token->size);
    if (is_object) {
        eitp__write_token_flags(token, out);
        eitp__buffer_add_text(out, "}");
    }
}

/* Writes the members of a tokenizer_config.json if none was loaded. The class for byte-level BPE is the one that reads
   everything from tokenizer.json. Without model_input_names, version 4 of transformers passes token_type_ids to models,
   for which GPT-2 adds an embedding. */
static void eitp__write_first_config(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    static const char *const names[] = {"PreTrainedTokenizerFast", "BertTokenizer", "RobertaTokenizer"};
    const int by_class = tokenizer->is_from_vocabulary_files;
    eitp__buffer_add_text(out, ",\n\"clean_up_tokenization_spaces\": false,\n\"model_input_names\": [\"input_ids\", ");
    if (tokenizer->model == EITP__MODEL_WORDPIECE)
        eitp__buffer_add_text(out, "\"token_type_ids\", ");
    eitp__buffer_format(out, "\"attention_mask\"],\n\"tokenizer_class\": \"%s\"",
                        names[by_class ? tokenizer->family : 0]);
}

/* Writes tokenizer_config.json. Missing special tokens are written as null, because programs would otherwise use those
   of the class and add them to the vocabulary. Classification tokens are omitted if neither tokenizer nor family has
   them. */
static void eitp__write_config(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    const eitp__normalization *steps = &tokenizer->normalization;
    const char *separator = "{\n";
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        if (which >= EITP_CLASSIFIER && tokenizer->special[which] < 0 &&
            !eitp__family_token(tokenizer->family, (eitp_special_token)which))
            continue;
        eitp__buffer_format(out, "%s\"%s\": ", separator, eitp__special_token_name((eitp_special_token)which));
        eitp__write_special(tokenizer, tokenizer->special[which], out);
        separator = ",\n";
    }
    if (tokenizer->model == EITP__MODEL_BPE)
        eitp__buffer_format(out, ",\n\"add_prefix_space\": %s", eitp__truth(tokenizer->add_prefix_space));
    else if (tokenizer->model == EITP__MODEL_WORDPIECE)
        eitp__buffer_format(out, ",\n\"do_lower_case\": %s,\n\"strip_accents\": %s,\n\"tokenize_chinese_chars\": %s",
                            eitp__truth(steps->lowercase), eitp__accents(steps),
                            eitp__truth(steps->handle_chinese_chars));
    if (tokenizer->config.size)
        eitp__buffer_add(out, tokenizer->config.data, tokenizer->config.size);
    else
        eitp__write_first_config(tokenizer, out);
    eitp__buffer_add_text(out, "\n}\n");
}

/* Writes vocab.txt: one token per line, without added tokens that are not in the model's vocabulary. */
static void eitp__write_vocabulary_lines(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        if (!eitp__is_model_token(tokenizer, id))
            continue;
        eitp__spell_token(tokenizer, id, out);
        eitp__buffer_add_text(out, "\n");
    }
}

static eitp_status eitp__save_file(const eitp_host *host, const char *directory, const char *name,
                                   const eitp__buffer *content, eitp_error *error) {
    if (content->failed)
        return eitp__fail_memory(error, content->size, name);
    char *path = eitp__join_path(host, directory, name);
    if (!path)
        return eitp__fail_memory(error, strlen(directory), "a path");
    eitp_status status = eitp__replace_file(host, path, content->data, content->size, error);
    eitp__release_text(host, path);
    return status;
}

/* True if each id up to the model's last one has a token, because the lines of vocab.txt imply the ids. */
static int eitp__has_no_gaps(const eitp_tokenizer *tokenizer) {
    int is_last = 1;
    for (size_t id = tokenizer->vocabulary.count; id-- > 0;) {
        if (eitp__is_model_token(tokenizer, id))
            is_last = 0;
        else if (!is_last)
            return 0;
    }
    return 1;
}

/* True if vocab.json and merges.txt, or vocab.txt, define the same tokenizer. They do not define how text is cut, nor
   how unknown bytes are handled. */
static int eitp__has_lists(const eitp_tokenizer *tokenizer) {
    if (tokenizer->model == EITP__MODEL_WORDPIECE)
        return eitp__has_no_gaps(tokenizer);
    return (tokenizer->model == EITP__MODEL_BPE && tokenizer->split == EITP__SPLIT_GPT2 && !tokenizer->has_normalizer &&
            !tokenizer->ignores_merges && !(tokenizer->bpe.lacks_bytes && tokenizer->bpe.unknown >= 0));
}

/* Saves the vocabulary in separate files. */
static eitp_status eitp__save_lists(const eitp_tokenizer *tokenizer, const char *directory, eitp__buffer *spelling,
                                    eitp__buffer *out, eitp_error *error) {
    const eitp_host *host = &tokenizer->host;
    if (tokenizer->model == EITP__MODEL_WORDPIECE) {
        eitp__write_vocabulary_lines(tokenizer, out);
        return eitp__save_file(host, directory, "vocab.txt", out, error);
    }
    eitp__write_vocabulary(tokenizer, spelling, out);
    eitp__buffer_add_text(out, "\n");
    eitp_status status = eitp__save_file(host, directory, "vocab.json", out, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_clear(out);
    eitp__write_text_merges(tokenizer, out);
    return eitp__save_file(host, directory, "merges.txt", out, error);
}

eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error) {
    if (!tokenizer || !directory)
        return eitp__fail_null(error, "eitp_tokenizer_save", "tokenizer and directory");
    const eitp_host *host = &tokenizer->host;
    eitp__buffer out, spelling;
    eitp_status status = eitp__make_directories(host, directory, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_init(&out, host);
    eitp__buffer_init(&spelling, host);
    /* tokenizer.json is preferred when loading, and needs only tokenizer_config.json. The lists alone, without the
       settings in these two files, would be another tokenizer. */
    eitp__write_config(tokenizer, &out);
    status = eitp__save_file(host, directory, "tokenizer_config.json", &out, error);
    if (status == EITP_OK) {
        eitp__buffer_clear(&out);
        eitp__write_tokenizer(tokenizer, &spelling, &out);
        status = eitp__save_file(host, directory, "tokenizer.json", &out, error);
    }
    if (status == EITP_OK)
        status = eitp__save_chat_template(tokenizer, directory, error);
    if (status == EITP_OK && eitp__has_lists(tokenizer)) {
        eitp__buffer_clear(&out);
        status = eitp__save_lists(tokenizer, directory, &spelling, &out, error);
    }
    eitp__buffer_release(&out);
    eitp__buffer_release(&spelling);
    return status;
}
