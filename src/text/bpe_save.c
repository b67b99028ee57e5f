/* Writing vocab.json, merges.txt, tokenizer_config.json and tokenizer.json. */
#include "base/files.h"
#include "base/json.h"
#include "base/unicode.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

/* Adds the spelling of a token in files to `spelling`. */
static void eitp__spell_token(const eitp_tokenizer *tokenizer, size_t id, eitp__buffer *spelling) {
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

/* Writes the model's vocabulary: {"token":id,...}. */
static void eitp__write_vocabulary(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *separator = "{\n";
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        if (tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_OUTSIDE)
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

static void eitp__write_added_tokens(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    const char *separator = "\n";
    eitp__buffer_add_text(out, "[");
    for (size_t id = 0; id < tokenizer->vocabulary.count; id++) {
        const eitp__token *token = &tokenizer->vocabulary.tokens[id];
        if (!(token->flags & EITP__TOKEN_ADDED))
            continue;
        eitp__buffer_format(out, "%s{\"id\":%zu,\"content\":", separator, id);
        eitp__json_write_text(out, (const char *)eitp__token_bytes(tokenizer, id), token->size);
        eitp__buffer_format(
            out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,\"special\":%s}",
            token->flags & EITP__TOKEN_NORMALIZED ? "true" : "false",
            token->flags & EITP__TOKEN_SPECIAL ? "true" : "false");
        separator = ",\n";
    }
    eitp__buffer_add_text(out, "]");
}

static void eitp__write_tokenizer(const eitp_tokenizer *tokenizer, eitp__buffer *spelling, eitp__buffer *out) {
    const char *prefix = tokenizer->add_prefix_space ? "true" : "false";
    eitp__buffer_add_text(out, "{\n\"version\":\"1.0\",\n\"truncation\":null,\n\"padding\":null,\n\"added_tokens\":");
    eitp__write_added_tokens(tokenizer, out);
    eitp__buffer_format(
        out,
        ",\n\"normalizer\":null,\n"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":true},\n"
        "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":false,\"use_regex\":true},"
        "\n"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":true},\n",
        prefix, prefix, prefix);
    eitp__buffer_add_text(
        out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
             "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\n"
             "\"vocab\":");
    eitp__write_vocabulary(tokenizer, spelling, out);
    eitp__buffer_add_text(out, ",\n\"merges\":");
    eitp__write_json_merges(tokenizer, spelling, out);
    eitp__buffer_add_text(out, "}\n}\n");
}

/*
 * Missing special tokens are written as null: otherwise programs use GPT-2's and add it to the vocabulary. The
 * tokenizer class of transformers is the one that reads everything from tokenizer.json. Without model_input_names its
 * version 4 passes token_type_ids to models, for which GPT-2 adds an embedding.
 */
static void eitp__write_config(const eitp_tokenizer *tokenizer, eitp__buffer *out) {
    eitp__buffer_add_text(out, "{\n");
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        const int32_t id = tokenizer->special[which];
        eitp__buffer_format(out, "\"%s\": ", eitp__special_token_name((eitp_special_token)which));
        if (id < 0)
            eitp__buffer_add_text(out, "null");
        else
            eitp__json_write_text(out, (const char *)eitp__token_bytes(tokenizer, (size_t)id),
                                  tokenizer->vocabulary.tokens[id].size);
        eitp__buffer_add_text(out, ",\n");
    }
    eitp__buffer_format(out, "\"add_prefix_space\": %s", tokenizer->add_prefix_space ? "true" : "false");
    if (tokenizer->config.size)
        eitp__buffer_add(out, tokenizer->config.data, tokenizer->config.size);
    else
        eitp__buffer_add_text(out, ",\n\"clean_up_tokenization_spaces\": false,\n"
                                   "\"model_input_names\": [\"input_ids\", \"attention_mask\"],\n"
                                   "\"tokenizer_class\": \"PreTrainedTokenizerFast\"");
    eitp__buffer_add_text(out, "\n}\n");
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
    eitp__write_vocabulary(tokenizer, &spelling, &out);
    eitp__buffer_add_text(&out, "\n");
    status = eitp__save_file(host, directory, "vocab.json", &out, error);
    if (status == EITP_OK) {
        eitp__buffer_clear(&out);
        eitp__write_text_merges(tokenizer, &out);
        status = eitp__save_file(host, directory, "merges.txt", &out, error);
    }
    if (status == EITP_OK) {
        eitp__buffer_clear(&out);
        eitp__write_config(tokenizer, &out);
        status = eitp__save_file(host, directory, "tokenizer_config.json", &out, error);
    }
    if (status == EITP_OK) { /* last, since it is preferred to the other files when loading */
        eitp__buffer_clear(&out);
        eitp__write_tokenizer(tokenizer, &spelling, &out);
        status = eitp__save_file(host, directory, "tokenizer.json", &out, error);
    }
    eitp__buffer_release(&out);
    eitp__buffer_release(&spelling);
    return status;
}
