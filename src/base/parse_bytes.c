/* Parses human-readable numbers of bytes. */
#include "base/status.h"

/* A decimal number; strtod would expect the decimal point of the locale. */
typedef struct eitp__amount {
    double digits, scale; /* the number is digits / scale */
    int has_point, is_zero, is_valid;
} eitp__amount;

/* Reads digits, and more digits after a decimal point; only the first 15 count. Returns the rest of the text. */
static const char *eitp__read_amount(const char *text, eitp__amount *amount) {
    amount->digits = 0;
    amount->scale = 1;
    amount->has_point = 0;
    amount->is_zero = 1;
    amount->is_valid = *text >= '0' && *text <= '9';
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !amount->has_point); text++) {
        if (*text == '.') {
            amount->has_point = 1;
            amount->is_valid &= text[1] >= '0' && text[1] <= '9';
            continue;
        }
        amount->is_zero &= *text == '0';
        if (amount->scale < 1e15) {
            amount->digits = 10 * amount->digits + (*text - '0');
            amount->scale *= amount->has_point ? 10 : 1;
        }
    }
    return text;
}

/* Returns the bytes of a unit, which may end in B; 0 if it is unknown. */
static double eitp__unit_bytes(const char *unit) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"k", 1e3},   {"K", 1e3},      {"M", 1e6},         {"G", 1e9},
                 {"T", 1e12}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776.0}};
    size_t size = strlen(unit);
    size -= size && unit[size - 1] == 'B';
    for (size_t i = 0; i < EITP__COUNT(units); i++) {
        if (strlen(units[i].name) == size && !memcmp(units[i].name, unit, size))
            return units[i].bytes;
    }
    return 0;
}

eitp_status eitp_parse_bytes(const char *text, uint64_t *bytes, eitp_error *error) {
    eitp__amount amount;
    double unit, number;
    if (!text || !bytes)
        return eitp__fail_null(error, "eitp_parse_bytes", "text and bytes");
    unit = eitp__unit_bytes(eitp__read_amount(text, &amount));
    number = amount.digits / amount.scale * unit;
    if (!amount.is_valid || !(unit > 0) || (amount.has_point && unit <= 1) || (!amount.is_zero && number < 1))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "'%.40s' is not a number of bytes; expected a whole number, or a number with a unit such as 900M, "
            "1.5G or 512Mi",
            text);
    *bytes = number < 18446744073709551615.0 ? (uint64_t)(number + 0.5) : UINT64_MAX;
    return EITP_OK;
}
