#include "data/text_check.h"

#include "base/files.h"
#include "base/status.h"
#include "base/unicode.h"

/* A format that is not text: its first bytes, and the command that converts it to text. */
typedef struct eitp__file_magic {
    const char *name;
    const char *bytes;
    size_t size;
    const char *before, *after; /* parts of the command before and after the path; NULL: no command */
} eitp__file_magic;

#define EITP__MAGIC(bytes) (bytes), sizeof(bytes) - 1

static const eitp__file_magic eitp__file_magics[] = {
    {"gzip", EITP__MAGIC("\x1F\x8B"), "gunzip -c '", "' > NEW"},
    {"zip (as are .docx, .xlsx and .npz)", EITP__MAGIC("PK\3\4"), "unzip -p '", "' > NEW"},
    {"zip", EITP__MAGIC("PK\5\6"), "unzip -p '", "' > NEW"},
    {"zstd", EITP__MAGIC("\x28\xB5\x2F\xFD"), "zstd -dc '", "' > NEW"},
    {"xz", EITP__MAGIC("\xFD\x37zXZ\0"), "xz -dc '", "' > NEW"},
    {"7-Zip", EITP__MAGIC("7z\xBC\xAF\x27\x1C"), "7z x -so '", "' > NEW"},
    {"PDF", EITP__MAGIC("%PDF-"), "pdftotext '", "' NEW"},
    {"Parquet", EITP__MAGIC("PAR1"), "python3 -c \"import pandas; pandas.read_parquet('",
     "').to_json('data.jsonl', orient='records', lines=True, force_ascii=False)\""},
    {"SQLite", EITP__MAGIC("SQLite format 3\0"), NULL, NULL},
    {"ELF",
     EITP__MAGIC("\x7F"
                 "ELF"),
     NULL, NULL},
    {"PNG", EITP__MAGIC("\x89PNG"), NULL, NULL},
    {"JPEG", EITP__MAGIC("\xFF\xD8\xFF"), NULL, NULL},
};

/* bzip2's block size is a digit between its marks. */
static int eitp__is_bzip2(const char *bytes, size_t size) {
    return size >= 10 && !memcmp(bytes, "BZh", 3) && bytes[3] >= '1' && bytes[3] <= '9' &&
           (!memcmp(bytes + 4, "1AY&SY", 6) || !memcmp(bytes + 4, "\x17rE8P\x90", 6));
}

static const eitp__file_magic *eitp__find_file_magic(const char *bytes, size_t size) {
    static const eitp__file_magic bzip2 = {"bzip2", NULL, 0, "bzip2 -dc '", "' > NEW"};
    if (eitp__is_bzip2(bytes, size))
        return &bzip2;
    for (size_t i = 0; i < EITP__COUNT(eitp__file_magics); i++) {
        const eitp__file_magic *magic = &eitp__file_magics[i];
        if (size >= magic->size && !memcmp(bytes, magic->bytes, magic->size))
            return magic;
    }
    return NULL;
}

/* Counts of bytes in the checked start of the file. */
typedef struct eitp__text_counts {
    size_t controls; /* control characters that are unusual in text */
    size_t zeros[2]; /* zero bytes in even and in odd positions */
    size_t invalid;  /* bytes that are not UTF-8 */
    size_t beyond;   /* bytes of valid characters beyond ASCII */
    size_t high;     /* bytes from 0x80 on */
    size_t paired;   /* of these, in pairs */
} eitp__text_counts;

static void eitp__count_controls(const unsigned char *bytes, size_t size, eitp__text_counts *counts) {
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = bytes[i];
        counts->zeros[i & 1] += !c;
        counts->high += c >= 0x80;
        counts->controls += (c < 0x20 && !(c >= '\b' && c <= '\r') && c != 0x1B) || c == 0x7F;
    }
    for (size_t i = 0; i + 1 < size; i++) {
        if (bytes[i] < 0x80 || bytes[i + 1] < 0x80)
            continue;
        counts->paired += 2;
        i++;
    }
}

static void eitp__count_invalid(const unsigned char *bytes, size_t size, eitp__text_counts *counts) {
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int valid;
        if (bytes[i] < 0x80) {
            i++;
            continue;
        }
        /* The prefix may end inside a character. */
        if (size - i < 4 && eitp__utf8_incomplete(bytes + i, size - i) == size - i)
            break;
        const size_t length = eitp__utf8_next(bytes + i, size - i, &code_point, &valid);
        *(valid ? &counts->beyond : &counts->invalid) += length;
        i += length;
    }
}

/* Returns the text's encoding if it is UTF-16 or UTF-32, according to its mark or zero bytes; NULL: neither. */
static const char *eitp__wide_encoding(const char *bytes, size_t size, const eitp__text_counts *counts) {
    const size_t most = size / 4 + 1;
    if (size >= 4 && (!memcmp(bytes, "\xFF\xFE\0\0", 4) || !memcmp(bytes, "\0\0\xFE\xFF", 4)))
        return "UTF-32";
    if (size >= 2 && (!memcmp(bytes, "\xFF\xFE", 2) || !memcmp(bytes, "\xFE\xFF", 2)))
        return "UTF-16";
    if (size >= 4 && counts->zeros[1] >= most && !counts->zeros[0])
        return "UTF-16LE";
    if (size >= 4 && counts->zeros[0] >= most && !counts->zeros[1])
        return "UTF-16BE";
    return NULL;
}

/* True if `count` bytes of `size` are more than a few. */
static int eitp__is_many(size_t count, size_t size) {
    return count > 3 && count > size / 100;
}

static eitp_status eitp__refuse_magic(const char *path, const eitp__file_magic *magic, eitp_error *error) {
    if (!magic->before)
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is a %s file, not text; give text files", path, magic->name);
    return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is a %s file; convert it to text first: %s%s%s", path,
                      magic->name, magic->before, path, magic->after);
}

/* Pairs of high bytes suggest Chinese, single ones a Western European encoding. */
static eitp_status eitp__refuse_encoding(const char *path, const eitp__text_counts *counts, size_t size,
                                         eitp_error *error) {
    const char *guess = counts->paired >= counts->high / 4 * 3 ? "GB18030" : "WINDOWS-1252";
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "'%s' is not UTF-8: %llu of its first %llu bytes are invalid; set encoding to its encoding, "
                      "perhaps %s, or convert it: iconv -f %s -t UTF-8 '%s' > NEW",
                      path, (unsigned long long)counts->invalid, (unsigned long long)size, guess, guess, path);
}

EITP__PRIVATE eitp_status eitp__check_text(const char *path, const char *bytes, size_t size, int is_utf8,
                                           eitp_error *error) {
    eitp__text_counts counts = EITP__ZERO;
    const eitp__file_magic *magic = eitp__find_file_magic(bytes, size);
    eitp_status status = magic ? eitp__refuse_magic(path, magic, error) : EITP_OK;
    if (status == EITP_OK)
        status = eitp__check_lfs_pointer(path, bytes, size, error);
    if (status != EITP_OK)
        return status;
    if (!is_utf8)
        return EITP_OK;
    eitp__count_controls((const unsigned char *)bytes, size, &counts);
    const char *wide = eitp__wide_encoding(bytes, size, &counts);
    if (wide)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' is %s, not UTF-8; set encoding to %s, or convert it: iconv -f %s -t UTF-8 '%s' > NEW",
                          path, wide, wide, wide, path);
    if (eitp__is_many(counts.controls, size))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "'%s' is a binary file, not text: %llu of its first %llu bytes are control characters; give "
                          "text files",
                          path, (unsigned long long)counts.controls, (unsigned long long)size);
    eitp__count_invalid((const unsigned char *)bytes, size, &counts);
    if (eitp__is_many(counts.invalid, size) && counts.invalid > counts.beyond)
        return eitp__refuse_encoding(path, &counts, size, error);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__check_decoded(const char *path, const char *encoding, uint64_t invalid, size_t size,
                                              eitp_error *error) {
    if (!eitp__is_many((size_t)invalid, size))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "'%s' is not %.40s: %llu of its first %llu bytes are invalid; set encoding to its encoding", path,
                      encoding, (unsigned long long)invalid, (unsigned long long)size);
}
