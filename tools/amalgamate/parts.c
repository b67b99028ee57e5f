/*
 * Support for compiling eitp.h in parts, selected by EITP_PART. A part consists of the modules under its `part N:`
 * lines in the manifest.
 */
#include "amalgamate.h"

/* EITP__IS_STATIC(EITP_API) is 1 if EITP_API starts with `static`. */
static const char macros[] = "#ifdef EITP_PART\n"
                             "#define EITP__IN_PART(number) (EITP_PART == (number))\n"
                             "#else\n"
                             "#define EITP__IN_PART(number) 1\n"
                             "#endif\n"
                             "#define EITP__BEFORE_static 0, 1,\n"
                             "#define EITP__WORD_AFTER(first, second, ...) second\n"
                             "#define EITP__WORD_OF(...) EITP__WORD_AFTER(__VA_ARGS__, 0, 0)\n"
                             "#define EITP__IS_STATIC_NOW(linkage) EITP__WORD_OF(EITP__BEFORE_##linkage)\n"
                             "#define EITP__IS_STATIC(linkage) EITP__IS_STATIC_NOW(linkage)\n";

void add_part_macros(text *output) {
    text_format(output, "%s", macros);
}

void add_part_errors(text *output) {
    text_format(output,
                "#elif defined(EITP_PART) && (EITP_PART + 0 < 1 || EITP_PART + 0 > %u)\n"
                "#error \"EITP_PART is the number of a part, 1 to %u\"\n"
                "#elif defined(EITP_PART) && EITP__IS_STATIC(EITP_API)\n"
                "#error \"EITP_PART: parts call each other's public functions, so EITP_API cannot be static\"\n",
                part_count, part_count);
}

void add_part_functions(text *output) {
    unsigned part;
    text_format(output, "\n#ifdef EITP_PART\n/* The linker reports a missing or duplicate part. */\n");
    for (part = 1; part <= part_count; part++)
        text_format(output,
                    "#define eitp__part_%u EITP__VERSIONED(eitp__part_%u)\n"
                    "EITP__PRIVATE void eitp__part_%u(void);\n"
                    "#if EITP__IN_PART(%u)\n"
                    "EITP__PRIVATE void eitp__part_%u(void) {\n"
                    "}\n"
                    "#endif\n",
                    part, part, part, part, part);
    text_format(output, "static void (*const eitp__parts[])(void) __attribute__((used)) = {");
    for (part = 1; part <= part_count; part++)
        text_format(output, "%seitp__part_%u", part > 1 ? ", " : "", part);
    text_format(output, "};\n#endif\n");
}
