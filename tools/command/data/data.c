#include "data/data.h"

#include "data/opening.h"
#include "data/permissions.h"
#include "files.h"
#include "output.h"
#include "process.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

/* ---- Token files and text files ---- */

/* True if a file starts like a token file of eitp or llm.c (docs/sample-file.md). */
static int starts_as_token_file(const char *path) {
    static const unsigned char magics[][8] = {{'E', 'I', 'T', 'P', 'T', 'O', 'K', 0},
                                              {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0}};
    const eitp_host host = command_host();
    unsigned char bytes[8];
    size_t done = 0;
    void *file;
    int code = host.files.open(host.files.user, path, EITP_FILE_READ, &file);
    if (code)
        return 0;
    code = host.files.read(host.files.user, file, 0, bytes, sizeof bytes, &done);
    host.files.close(host.files.user, file);
    return !code && done == sizeof bytes && (!memcmp(bytes, magics[0], 8) || !memcmp(bytes, magics[1], 8));
}

/* True for standard input. */
static int is_input(const char *path) {
    return !strcmp(path, "-");
}

eitp_status data_is_token_file(const option_set *o, option_id id, int *is_token_file, eitp_error *error) {
    const option_value *paths = &o->values[id];
    *is_token_file = 0;
    for (size_t i = 0; i < paths->count; i++) {
        if (is_input(paths->texts[i]))
            continue;
        if (files_info(paths->texts[i]).kind == EITP_PATH_MISSING)
            return command_fail(error, EITP_ERROR_ARGUMENT, "--%s '%s': no such file or directory; check the path",
                                options_name(id), paths->texts[i]);
        if (!starts_as_token_file(paths->texts[i]))
            continue;
        *is_token_file = 1;
        if (paths->count > 1)
            return command_fail(error, EITP_ERROR_ARGUMENT,
                                "'%s' is a token file, which must be the only --data; to add text, pack all of it into "
                                "one file with 'eitp pack'",
                                paths->texts[i]);
    }
    return EITP_OK;
}

/* ---- Packing ---- */

static int pack_progress(void *user, const eitp_pack_progress *progress) {
    eitp_training_progress shown;
    memset(&shown, 0, sizeof shown);
    shown.stage = "packing";
    shown.bytes = progress->text_bytes;
    shown.all_bytes = progress->text_bytes_total;
    shown.count = progress->tokens;
    shown.unit = "tokens";
    return opening_show(user, &shown);
}

eitp_text_files_config data_texts(const option_set *o, option_id id) {
    eitp_text_files_config texts;
    memset(&texts, 0, sizeof texts);
    texts.paths = (const char *const *)o->values[id].texts;
    texts.path_count = o->values[id].count;
    texts.format = (eitp_text_format)options_choice(o, OPTION_DATA_FORMAT);
    texts.encoding = options_text(o, OPTION_ENCODING);
    texts.text_column = options_text(o, OPTION_TEXT_COLUMN);
    texts.delimiter = options_text(o, OPTION_DELIMITER);
    texts.document_separator = options_text(o, OPTION_DOCUMENT_SEPARATOR);
    texts.skip_bad = options_choice(o, OPTION_ON_BAD_ROW) == 1;
    texts.strict_utf8 = (int)options_integer(o, OPTION_STRICT_UTF8);
    texts.input = files_input();
    return texts;
}

eitp_status data_pack(const eitp_host *host, const option_set *o, option_id id, const eitp_tokenizer *tokenizer,
                      const char *path, eitp_sample_file_info *info, eitp_error *error) {
    const mode_t before = permissions_lower(o, id, path);
    eitp_pack_config config;
    opening shown = {NULL, 0, 0, 1, ""};
    eitp_status status;
    memset(&config, 0, sizeof config);
    shown.started = shown.shown = process_time();
    config.texts = data_texts(o, id);
    config.progress = pack_progress;
    config.user = &shown;
    status = eitp_pack(host, tokenizer, &config, path, info, error);
    permissions_restore(before);
    if (!status)
        output_info("packed %llu document%s (%s of text) into %llu tokens of %.2f bytes in %.1f s: %s",
                    (unsigned long long)info->document_count, info->document_count == 1 ? "" : "s",
                    output_bytes((double)info->text_bytes), (unsigned long long)info->token_count,
                    (double)info->text_bytes / (double)info->token_count, process_time() - shown.started, path);
    return status;
}

int data_is_table(const option_set *o, option_id id) {
    static const char *const endings[] = {".csv",    ".tsv",   ".tab", ".json", ".jsonl",
                                          ".ndjson", ".conll", ".bio", ".iob"};
    const option_value *paths = &o->values[id];
    const int format = options_choice(o, OPTION_DATA_FORMAT);
    for (size_t i = 0; i < paths->count && !format; i++) {
        const char *ending = strrchr(paths->texts[i], '.');
        for (size_t j = 0; j < COMMAND_COUNT(endings) && ending; j++) {
            if (!strcasecmp(ending, endings[j]))
                return 1;
        }
    }
    return format > 1;
}
