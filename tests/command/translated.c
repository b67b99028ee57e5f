/* Translates messages, given as lines "place<tab>text", as the command does before it prints them. */
#include "wording.h"

int main(void) {
    static char line[16384], text[16384];
    while (fgets(line, sizeof line, stdin)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            return 1;
        tab[strcspn(tab, "\n")] = 0;
        const wording_source source = strncmp(line, "tools/", 6) ? WORDING_LIBRARY : WORDING_COMMAND;
        wording_translate(tab + 1, source, text, sizeof text);
        printf("%.*s\t%s\n", (int)(tab - line), line, text);
    }
    return ferror(stdin) || fflush(stdout);
}
