#!/usr/bin/env python3
"""Write the golden values of tests/template/test_template.c with jinja2, configured as in transformers:
tests/golden/chat_templates, or the directory given.

    python3 tools/golden/make_chat_templates.py [DIRECTORY]

Templates with their output, or without one if they fail. All use the context below.

    pip install transformers==5.23.0 jinja2==3.1.6
"""

import argparse
import datetime
import itertools
import json
import pathlib

from transformers.utils import chat_template_utils

NOW = 1709300345  # 2024-03-01 13:39:05, after a leap day
CONTEXT = {
    "bos_token": "<s>",
    "messages": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "H\u00e9llo \u6f22\u5b57 \U0001f600"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "x"}, {"type": "image"}, {"type": "text", "text": "y"}]},
    ],
    "n": 7,
    "z": 0,
    "neg": -3,
    "pi": 3.14159,
    "big": 123456789012345678901234567890,
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": "",
    "word": "hello",
    "text": "  The quick, brown fox\njumps\n\n  over <it> & 'that' \"this\"\n",
    "unicode": "\u00c4pfel \u00df \u6f22\u5b57 \U0001f600 na\u00efve",
    "numbers": [3, 1, 2, 10],
    "words": ["b", "A", "c", "B", "a"],
    "mixed": [1, "two", None, [3, 4.0], {"five": 5}],
    "dict": {"b": 2, "a": "x", "C": None, "items": [1, 2], "\u00e9": 1e-7},
    "people": [{"name": "Ann", "age": 30, "x": {"y": 1}}, {"name": "bob", "age": 25, "x": {"y": 2}}, {"name": "Cy", "age": 30}],
    "nested": {"l": [[1, 2], [3, [4]]], "d": {"e": {}}, "n": []},
}

VALUES = "n z neg pi yes no nothing empty word numbers words dict missing messages nested.n (1,2) 'hello' 2.0 1e300 -0.0 [1,2]".split()
EXPRESSIONS = r"""
1_000 | 0x1F | 0b101 | 0o17 | 1.5e3 | 1e-7 | 1e16 | 123456789012345680.0 | 1e15 | 0.1 | 0.1 + 0.2 | 100.0 | 1.0e22 | 5e-324 | 00
'a' 'b' "c" | 'it\'s' | "q\"q" | 'a\\b' | 'tab\there' | 'new\nline' | '\x41\u00e9\U0001f600' | '\101' | '\d' | 'a\
b' | '' | true | True | none | None | false | [] | [1] | [1,] | () | (1,) | (1, 2) | {} | {'a': 1} | {1: 2, 'b': [None]} | 1, 2 | {'a': 1, 'a': 2}
1 + 2 * 3 | (1 + 2) * 3 | 7 // 2 | -7 // 2 | 7 // -2 | 7 % 3 | -7 % 3 | 7 % -3 | 7 / 2 | 6 / 2 | 2 ** 10 | 2 ** -1 | -2 ** 2 | 2 ** 3 ** 2 | 7.5 // 2 | -7.5 // 2 | 7.5 % 2 | -7.5 % 2 | 2 ** 0.5 | 1 - -1 | +5 | - 5 | --5
1 ~ 2 | 'a' ~ none ~ true ~ 1.0 | 1 + 2 ~ 3 | 'a' + 'b' ~ 'c' * 2 | 'ab' * 3 | 3 * 'ab' | [1] * 2 | 'x' * 0 | 'x' * -1 | [1] + [2, 3] | (1,) + (2,) | true + 1 | 1 + true * 2
1 < 2 | 1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 | 1 == true | 'a' == "a" | 'a' < 'b' | 'Z' < 'a' | [1, 2] < [1, 3] | (1, 2) == (1, 2) | [1] == (1,) | {'a': 1} == {'a': 1.0} | none == none | missing == missing | missing == none | 'a' != 'b' | 1 != 1 | 1 >= 1 | 2 > 3 > 1
'a' in 'abc' | 'z' not in 'abc' | 1 in [1, 2] | 'a' in dict | 'zz' in dict | 'a' in missing | 2 not in numbers | '' in 'a' | none in mixed | 'role' in messages[0] | not 1 in [2] | 1 in (1, 2) | 1.0 in [1]
not true | not not 1 | 1 and 0 | 0 or 'x' | '' or none | 1 and 'y' | not 1 == 2 | 0 and missing.x | 1 or missing.x | yes and not no | (yes or no) and nothing | a or b or 'c' | not missing
'a' if yes else 'b' | 'a' if no else 'b' | 'a' if no | ('a' if no) is defined | 'a' if no else 'b' if no else 'c' | 1 if missing else 2 | ('x' if yes) ~ 'y' | ['a' if yes else 'b', 'c'] | 'a' if n > 5 and z == 0 else 'b'
word[0] | word[-1] | word[1:3] | word[::-1] | word[::2] | word[-3:] | word[:-1] | word[10:] | word[3:1] | word[-100:2] | word[4:0:-2] | word[10] | unicode[0] | unicode[1] | unicode[-5:] | unicode[7:9] | unicode[::-1] | unicode|length | unicode[11] | word[true]
numbers[0] | numbers[-1] | numbers[1:] | numbers[::-1] | numbers[:-1] | numbers[1:3] | numbers[::2] | numbers[9] | numbers[-5] | numbers[5:] | (1, 2, 3)[1:] | range(5)[2] | range(10)[2:5]|list | mixed[3][1] | nested.l[1][1][0] | nested['d']['e'] | nested.d.e | numbers.0 | mixed.3.0 | numbers['x'] | dict[1] | numbers[1:none] | 'abc'[:none] | numbers[none:2:1]
dict.a | dict['a'] | dict.items | dict['items'] | dict.b | dict.missing | dict.missing.more | dict['missing'] | dict['missing']['more'] | missing.x | missing['x'] | missing | nothing.x | nothing['x'] | n.x | word.x | word['x'] | word.upper() | dict.get('b') | dict.get('q') | dict.get('q', 'd') | dict.get('C', 'd') | dict.keys()|list | dict.values()|list | dict.items()|list | dict.items() is defined | dict.get is defined | dict|length | dict|list | dict.keys()|length | dict.copy() | dict.pop('a') | dict.update is defined | dict.clear() | numbers.append(1) | numbers.append is defined | numbers.count(1) | numbers.index(2) | numbers.index(99) | dict.__class__ | ''.__class__ is defined | dict._x is defined
text.strip() | text.lstrip() | text.rstrip() | 'xxaxx'.strip('x') | 'xyaxy'.strip('yx') | 'xxaxx'.lstrip('x') | 'xxaxx'.rstrip('x') | unicode.strip('\u00c4') | ' \t\u00a0\u3000a\u2003'.strip() | '\x1ca\x1f'.strip() | 'a\x1eb\x85c'.split() | 'a'.strip(none) | 'abc'.strip('')
'a,b,,c'.split(',') | 'a,b,,c'.split(',', 1) | ' a  b c '.split() | ' a  b c '.split(none, 1) | ' a  b c '.split(maxsplit=1) | ''.split() | ''.split(',') | 'a--b--c'.split('--') | 'abc'.split('') | 'a,b,c'.rsplit(',', 1) | ' a  b c '.rsplit() | ' a  b c '.rsplit(none, 1) | 'abc'.rsplit('x') | 'a\nb\r\nc\n'.splitlines() | 'a\nb\n'.splitlines(true) | 'a\x0bb\u2028c'.splitlines() | 'a=b=c'.partition('=') | 'abc'.partition('=') | 'a=b=c'.rpartition('=') | 'abc'.rpartition('=') | 'a</t>b'.split('</t>')[-1].lstrip('\n') | 'x'.split('x')
'hello'.startswith('he') | 'hello'.startswith('lo') | 'hello'.startswith(('x', 'he')) | 'hello'.endswith('lo') | 'hello'.endswith(('x', 'y')) | 'hello'.startswith('') | 'hello'.removeprefix('he') | 'hello'.removeprefix('x') | 'hello'.removesuffix('lo') | 'hello'.removesuffix('') | 'hello'.startswith(1)
'hello'.upper() | 'HeLLo'.lower() | 'hello wORLD-foo'.title() | "it's 3rd".title() | 'hELLO World'.capitalize() | unicode.lower() | '\u00e4\u00f6\u0436'.upper() | '\u00c4\u0416'.lower() | '\u6f22'.upper() | 'hello'.replace('l', 'L') | 'hello'.replace('l', 'L', 1) | 'aaa'.replace('aa', 'b') | 'abc'.replace('', '-') | 'hello'.replace('x', 'y') | '\u00e9\u00e9'.replace('', '.') | 'hello'.find('l') | 'hello'.find('z') | 'hello'.rfind('l') | unicode.find('\u5b57') | 'hello'.index('o') | 'hello'.index('z') | 'hello'.count('l') | 'aaaa'.count('aa') | 'abc'.count('') | 'hello'.find('l', 3) | 'hello'.find('l', -2) | 'hello'.find('', 9) | 'hello'.count('l', 0, 3) | 'hello'.find('', 5)
', '.join(words) | '-'.join('abc') | ''.join([]) | ','.join([1]) | '123'.isdigit() | '12a'.isdigit() | ''.isdigit() | 'abc'.isalpha() | 'ab1'.isalpha() | 'ab1'.isalnum() | '\u00e9\u6f22'.isalpha() | ' \n'.isspace() | 'ABC1'.isupper() | 'abc'.islower() | '12'.isupper() | 'a'.ljust(3) ~ '|' | 'a'.rjust(3) | 'abcd'.ljust(3) | '12'.isnumeric() | 'hello'.nope() | 'hello'.encode is defined
'%s and %s' % ('a', 1) | '%d%%' % 5 | '%5.2f|' % 3.14159 | '%-5s|' % 'a' | '%05d' % 42 | '%x %X %o' % (255, 255, 8) | '%r' % 'a' | '%s' % [1] | '%s' % none | '%.3s' % 'abcdef' | '%+d' % 5 | '%e' % 12345.678 | '%g' % 0.0001 | '%s' % () | '%s %s' % 'a' | '%d' % 'a' | '%i' % 3.9 | 'a' % 1 | '%s' % ('a', 'b') | '%5s|' % '\u00e9' | '%s'|format('x') | '%d-%d'|format(1, 2)
text|trim | '  a '|trim | 'xax'|trim('x') | none|trim | 5|trim | missing|trim | [1]|trim | 'abc'|length | numbers|length | dict|count | missing|length | 5|length | none|length | 'abc'|upper | 'ABC'|lower | none|upper | 5|upper | 'hello world-foo (bar) <baz'|title | 'a.b c_d'|title | 'hELLO'|capitalize | missing|upper
'hello'|replace('l', 'L') | 'hello'|replace('l', 'L', 1) | 5|replace('5', '6') | words|join | words|join(', ') | numbers|join('-') | people|join(', ', attribute='name') | 'abc'|join('.') | [1, none, 'x']|join('|') | dict|join | missing|join('x') | numbers|join(1)
numbers|first | []|first | ([]|first) is defined | word|first | dict|first | numbers|last | word|last | []|last | dict|last | missing|first | 'abc'|list | dict|list | range(3)|list | none|list | missing|list | (1, 2)|list | 5|list
people|map(attribute='name')|list | people|map(attribute='x.y')|list | people|map(attribute='nope')|list | people|map(attribute='nope', default='d')|list | words|map('upper')|list | [' a ']|map('trim')|first | ['ab']|map('replace', 'a', 'x')|list | [[1,2],[3]]|map('length')|list | numbers|map('string')|join('+') | [[1, 2], [3, 4]]|map(attribute=1)|list | numbers|map|list | none|map('upper')|list | [['b','a']]|map('sort')|list | people|map(attribute='x')|map(attribute='y')|list
numbers|select('odd')|list | numbers|select('gt', 2)|list | mixed|select|list | mixed|select('none')|list | mixed|select('string')|list | numbers|reject('odd')|list | words|select('equalto', 'a')|list | numbers|select('in', [1, 2])|list | words|select('==', 'b')|list | numbers|select('>=', 3)|list | people|selectattr('age', 'equalto', 30)|map(attribute='name')|list | people|selectattr('x')|list|length | people|rejectattr('age', 'eq', 30)|list | people|selectattr('x', 'defined')|map(attribute='name')|join | people|selectattr('x.y', 'gt', 1)|list | messages|selectattr('role', 'in', ['user', 'tool'])|map(attribute='role')|list | messages|rejectattr('content')|list|length | (numbers|select('gt', 100)) is defined | true if numbers|select('gt', 100) else false | (numbers|select('odd'))|length | (numbers|select('odd'))[0] | (numbers|select('odd')|list)[0] | messages|selectattr('role', 'equalto', 'user')|first | (messages|selectattr('role', 'equalto', 'x')|list) or 'none' | numbers|select('nope')|list is defined | none|selectattr('a')|list | missing|selectattr('a')|list
missing|default('d') | missing|d('d') | none|default('d') | none|default('d', true) | ''|default('d', true) | 0|d(1, boolean=true) | missing|default | missing.x|default('d') | dict.q|default(5) | word|default('d') | (missing|default({})).x | no|default(true)
5|string | none|string | 'a'|string | [1]|string | '5'|int | '5.7'|int | 'abc'|int | 'abc'|int(7) | 5.9|int | -5.9|int | true|int | ' 12 '|int | '0x1f'|int(0, 16) | 'ff'|int(base=16) | none|int | none|int(3) | [1]|int | '1_000'|int | '5.5'|float | 'x'|float | 'x'|float(1.5) | 3|float | '1e3'|float | '.5'|float | '5.'|float | none|float | '-7'|int | '+7'|int | ''|int | missing|int | '1e3'|int
-5|abs | 5.5|abs | (-5)|abs | 'a'|abs | [1, 2]|min | numbers|min | numbers|max | words|min | words|max | words|max(case_sensitive=true) | []|min | people|max(attribute='age') | people|min(attribute='name') | numbers|sum | []|sum | people|sum(attribute='age') | numbers|sum(start=100) | [1.5, 2]|sum | ['a']|sum | [[1]]|sum(start=[0]) | 2.5|round | 3.5|round | 2.567|round(2) | 2.567|round(1, 'floor') | 2.1|round(0, 'ceil') | 5|round | 1234.5|round(-2) | 0.125|round(2) | 2.675|round(2) | pi|round(3) | 'a'|round | 2.567|round(method='floor') | 1e20|round
words|sort | words|sort(case_sensitive=true) | numbers|sort | numbers|sort(reverse=true) | numbers|sort(true) | people|sort(attribute='age')|map(attribute='name')|list | people|sort(attribute='name', reverse=true)|map(attribute='name')|list | people|sort(attribute='x.y')|list | [1, 'a']|sort | words|unique|list | words|unique(true)|list | [1, 1.0, true, 2]|unique|list | people|unique(attribute='age')|map(attribute='name')|list | dict|dictsort | {'b': 1, 'A': 2}|dictsort(true) | {'b': 1, 'A': 2}|dictsort(by='value') | {'b': 1, 'A': 2}|dictsort(reverse=true) | {'b': 1, 'A': 2}|dictsort(false, 'value', true) | 'cba'|sort | dict|sort | numbers|reverse|list | 'abc'|reverse | unicode|reverse | numbers|reverse|first | {'a': 1}|items|list | missing|items|list | 5|items|list | [[2, 'b'], [1, 'a']]|sort
text|indent | text|indent(2, true) | text|indent(2, blank=true) | 'a\nb'|indent('>>') | 'a\n\nb\n'|indent(1, true, true) | ''|indent | 'a'|indent(first=true) | 5|indent | text|e | '<a href="x">&\''|escape | 'a<b'|safe | 5|e | none|e
dict|tojson | mixed|tojson | text|tojson | unicode|tojson | unicode|tojson(ensure_ascii=true) | nested|tojson(indent=2) | nested|tojson(indent=4) | mixed|tojson(indent=0) | mixed|tojson(indent='--') | dict|tojson(separators=(',', ':')) | {'b': 1, 'a': 2}|tojson(sort_keys=true) | {'b': [1, {'z': 1, 'y': 2}], 'a': 2}|tojson(indent=1, sort_keys=true) | 1.0|tojson | 1e100|tojson | none|tojson | true|tojson | missing|tojson | (1, 2)|tojson | {1: 2, none: 3, true: 4, 1.5: 5}|tojson | '\x00\x1f\x7f\u2028/'|tojson | big|tojson | big | [big] | []|tojson | []|tojson(indent=2) | {}|tojson(indent=2) | {'a': []}|tojson(indent=2) | range(3)|tojson | messages[2]|tojson | dict.items()|tojson | messages|tojson(indent=2, ensure_ascii=true) | nested|tojson(indent=2, separators=(';', '='))
missing is defined | n is defined | n is not defined | missing is undefined | nothing is none | nothing is not none | missing is none | word is string | n is string | dict is mapping | numbers is mapping | numbers is iterable | word is iterable | n is iterable | dict is iterable | missing is iterable | nothing is iterable | numbers is sequence | word is sequence | dict is sequence | n is sequence | missing is sequence | range(3) is sequence | (numbers|select) is sequence | (numbers|select) is iterable | dict.items() is sequence | (1,) is sequence | n is number | pi is number | yes is number | word is number | n is integer | yes is integer | pi is integer | pi is float | n is float | yes is boolean | n is boolean | yes is true | n is true | 1 is true | no is false | z is false | n is odd | n is even | neg is odd | word is odd | n is divisibleby 7 | n is divisibleby(3) | n is eq 7 | n is equalto(7) | n is ne 7 | n is gt 5 | n is ge 7 | n is lt 7 | n is le 7 | n is lessthan 8 | n is greaterthan 8 | 'a' is in 'abc' | n is in [7] | n is sameas 7.0 | nothing is sameas none | yes is sameas true | word is lower | word is upper | 'ABC' is upper | '12' is lower | range is callable | n is callable | dict.get is callable | not n is string | n is not string and yes | n is string or yes | 1 + n is odd | -1 is odd | missing.x is defined | dict.x is defined | dict.x.y is defined | messages[0].content is string | messages[9] is defined | messages[-1]['content'] is not string | n is number and n > 5 | word is string is defined | range(3) is iterable | loop is defined | namespace is defined | big is integer | big is number
range(4)|list | range(1, 4)|list | range(4, 0, -2)|list | range(0)|list | range(3)|length | range(2, 8, 3)|list | range(100001)|length | range(1, 2, 0) | range('a') | range(3) is defined | 2 in range(3) | range(3) == range(3) | dict(a=1, b=2) | dict({'a': 1}, b=2) | dict([('a', 1)]) | dict(a=1).a | namespace(a=1).a | namespace({'a': 2}).a | namespace(a=1).b | namespace(_a=1) | strftime_now('%Y-%m-%d') | strftime_now('%d %b %Y') | strftime_now('%A, %B %-d, %Y %H:%M:%S') | strftime_now('%a %j %I:%M %p %y %e %%') | strftime_now('%F %T %D %R') | strftime_now('') | raise_exception('No: ' ~ n) | nope() | word() | n() | dict.a() | range() | word.upper(1) | word|nope_filter is defined
1 / 0 | 1 // 0 | 1 % 0 | 1.0 / 0 | 'a' + 1 | 1 + 'a' | 'a' + none | [1] + (1,) | none + 1 | missing + 1 | 1 + missing | 'a' + missing | -missing | -'a' | 'a' < 1 | none < 1 | missing < 1 | [1] < [missing] | 1 in 5 | 1 in 'a' | none in 'a' | [1] in dict | {[1]: 2} | dict - 1 | word / 2 | 0 ** -1 | numbers * 1.5 | not missing.x
text | unicode | mixed | nested | dict | people[0] | messages[1].content | [text] | ['it\'s'] | ["q\"q"] | ['both\'"'] | ['\n\t\\\x00\x7f\u00a0\u00e9\u200b\U0001f600\u2028'] | [missing] | [1.0, 1e16, -0.0, true] | {'a': ('x',)} | (none, ) | [[], {}, ()] | -0.0 | 1e300 * 1e10 | [1e300 * 1e10] | (1e300 * 1e10)|tojson | word|upper|lower|title | (word)[0] | (word|upper)[0] | word|upper ~ 'x' | 'a' ~ word|upper | n + 1|abs | (n, word)[1] | [n, [n, [n]]]|tojson|length
""".strip("\n")
STATEMENTS = [
    "a\nb\n", "a\n\n", "\n", "", "a\r\nb\rc\r\n", "{{ 'x' }}\n{{ 'y' }}\n", "  {{ 'x' }}  \n",
    "{% if yes %}\nA\n{% endif %}\nB", "  {% if yes %}  \n  A\n  {% endif %}  \nB", "x {% if yes %} A {% endif %} y", "\t{% if yes %}\n\tA\n\t{% endif %}\n",
    "a {%- if yes %} b {%- endif %} c", "a {% if yes -%} b {% endif -%} c", "a\n\n{%- if yes -%}\n\nb\n\n{%- endif -%}\n\nc", "a {{- 'x' -}} b", "a\n {{- 'x' }}\n b", "a {{ 'x' -}} \n\n b", "  {%+ if yes %}A{% endif %}", "{% if yes +%}\nA{% endif %}", "{% if yes +%}\nA\n  {%+ endif +%}\nB",
    "a {# comment #} b", "a\n{# comment #}\nb", "a {#- comment -#} b", "  {# c #}\nb", "{# a {{ b }} {% c %} #}x", "a {#+ c +#}\nb", "{#-#}x", "x {#- -#} y", "{##}a", "a\n  {#- c #}\n  b",
    "{{+ 5 }}", "{{ 5 -}}\n x", "{{-5}}", "{{ -5 }}", "{{ '}}' }}", "{{ '{%' }}{{ '%}' }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': 1}}}", "{ {% if yes %} } {% endif %}", "{{'a'}}{{'b'}}", "{", "}}", "%}", "{{ 1 }", "{% if yes %}", "{{ }}", "{% %}", "{{ 1 + }}", "{% if %}{% endif %}", "{{ 'a }}", "{# x", "{% endif %}", "{% if yes %}{% endfor %}", "{% else %}", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2 }}", "{% for x in %}{% endfor %}", "{% for in x %}{% endfor %}", "{% set %}", "{% set x %}", "{{ a b }}", "{{ 1 2 }}", "{{ a. }}", "{{ a| }}", "{{ a is }}", "{{ $ }}", "{% break %}", "{{ not }}",
    "{% raw %}{{ x }} {% y %}{% endraw %}", "a\n{% raw %}\n  b {{ c }}\n{% endraw %}\nd", "  {%- raw -%}  x  {%- endraw -%}  y", "{% raw %} {% endraw", "{%raw%}a{%endraw%}b",
    "{% if no %}A{% elif yes %}B{% else %}C{% endif %}", "{% if no %}A{% elif no %}B{% else %}C{% endif %}", "{% if no %}A{% elif no %}B{% elif n == 7 %}D{% endif %}", "{% if missing %}A{% else %}B{% endif %}", "{% if missing.x %}A{% endif %}", "{% if not no and (n > 3 or missing.x) %}A{% endif %}",
    "{% for x in numbers %}{{ x }},{% endfor %}", "{% for x in numbers %}\n{{ x }}\n{% endfor %}\nend", "{% for x in [] %}A{% else %}B{% endfor %}", "{% for x in missing %}A{% else %}B{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for c in unicode %}[{{ c }}]{% endfor %}", "{% for k in dict %}{{ k }} {% endfor %}", "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in dict|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in dict|items %}{{ k }};{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }},{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}", "{% for x in numbers if x > 100 %}{% else %}none{% endfor %}", "{% for x in numbers %}{{ loop.index0 }}{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}", "{% for x in numbers %}{{ loop.previtem|default('-') }}<{{ loop.nextitem|default('-') }} {% endfor %}", "{% for x in numbers %}{{ loop.previtem is defined }}{% endfor %}", "{% for x in numbers %}{{ loop.previtem.x }}{% endfor %}", "{% for x in numbers %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}", "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}", "{% for x in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for x in [1, 2] %}{{ loop.nope }}{% endfor %}", "{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% else %}{{ loop is defined }}{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in numbers %}{% break %}{% else %}E{% endfor %}", "{% for x in numbers %}{% continue %}{% else %}E{% endfor %}", "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% for x in numbers|select('odd') %}{{ x }}{% endfor %}", "{% set g = numbers|select('odd') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}", "{% set g = numbers|select %}{{ g|first }}{{ g|first }}{{ g|list }}{{ g|list }}", "{% for x in numbers[::-1] %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in (1 if no else [5]) %}{{ x }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in numbers recursive %}{% endfor %}X" if False else "{% for i in [1, 2, 3] %}{{ 'x' if loop.last else ',' }}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a = [1] %}{{ ns.a }}{{ ns.b is defined }}", "{% set ns = namespace() %}{% set ns._a = 1 %}", "{% set dict.a = 1 %}", "{% set missing.a = 1 %}", "{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a, b = [1] %}", "{% set x %}\nA {{ n }}\n{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | trim | replace('b', 'c') %} abc {% endset %}{{ x }}", "{% set ns = namespace() %}{% set ns.x %}q{% endset %}{{ ns.x }}", "{% set x = 1 %}{% set x %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}", "{% set messages = messages[1:] %}{{ messages|length }}", "{% set x = x|default(3) %}{{ x }}", "{% set x = missing %}{{ x is defined }}", "{% set loop_messages = messages %}{% for m in loop_messages %}{{ m.role }}{% if not loop.last %},{% endif %}{% endfor %}", "{% set true = 1 %}", "{% set x = namespace(a=namespace(b=1)) %}{{ x.a.b }}",
    "{% for i in [1, 2] %}{% if i == 1 %}{% set y = 'q' %}{% endif %}{{ y is defined }}{% endfor %}{{ y is defined }}",
    "{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }} {{ f() }}", "{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f(f(f(1))) }}{{ f(1)|length }}{{ f(1) ~ f(2) }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}", "{% macro f() %}{{ y }}{% endmacro %}{% for y in [1] %}{{ f() }}{% endfor %}", "{% macro f(a=n, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f() }}{{ f(1) }}", "{% macro f(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f(1) }}{{ x }}", "{% macro f() -%}\n  a\n{%- endmacro %}[{{ f() }}]", "{{ f is defined }}{% macro f() %}{% endmacro %}{{ f is defined }}", "{% macro f(l) %}{% for x in l %}{% if x is iterable %}({{ f(x) }}){% else %}{{ x }}{% endif %}{% endfor %}{% endmacro %}{{ f(nested.l) }}", "{% macro f(a, b) %}{{ b is defined }}{% endmacro %}{{ f(1) }}{{ f(1, none) }}", "{% set ns = namespace(c=0) %}{% macro f() %}{% set ns.c = ns.c + 1 %}{{ ns.c }}{% endmacro %}{{ f() }}{{ f() }}{{ ns.c }}", "{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% filter upper %}abc {{ word }}{% endfilter %}", "{% filter trim | replace('a', 'b') %}  aa  {% endfilter %}|", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}A{{ n }}{% endgeneration %}B", "a\n{% generation %}\nb\n{% endgeneration %}\nc", "{%- generation -%} x {%- endgeneration -%} y", "{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}", "{% generation %}x",
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '')|string + '<|im_end|>' + '\\n' }}{% endfor %}", "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}", "{% for m in messages %}{% if m.content is string %}{{ m.content|trim }}{% elif m.content %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif 'image' in p.type %}<img>{% endif %}{% endfor %}{% endif %}|{% endfor %}", "{% for c in messages[2].tool_calls %}{% set f = c.function %}{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v|tojson if v is not string else v }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}", "{{ bos_token }}{%- set system = messages[0].content if messages[0].role == 'system' else '' -%}{{ system }}!",
    "{% set x = 'a' %}\n{% set y = 'b' %}\n\n{{ x }}\n  {%- if yes %}\n{{ y }}\n  {%- endif %}\n", "{%- for m in messages %}\n    {%- if loop.first %}\n        {{- m.role + '\\n' }}\n    {%- else %}\n        {{- '|' + m.role }}\n    {%- endif %}\n{%- endfor %}\n", "{{ 'a' }}\n\n{{ 'b' }}\n\n\n", "\u6f22\n  {% if yes %}\n\u5b57\n  {% endif %}\n\u3000{% if yes %}x{% endif %}", "a\u00a0\n\u00a0{% if yes %}b{% endif %}", "x\x0b{%- if yes %}y{% endif %}", "{% if yes %}\r\nA\r\n{% endif %}\r\nB",
    "{{ dict.items() }}" if False else "{{ dict.items()|list|length }}", "{%if yes%}a{%endif%}", "{%  if   yes  %}a{%\nendif\n%}b", "{{\n  word\n  |\n  upper\n}}", "{% set x = {\n 'a': 1,\n 'b': [\n1,\n2,\n],\n} %}{{ x }}", "{{ foo(\n1) if false else 'ok' }}",
    "{% call f() %}x{% endcall %}", "{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}x{{ n }}{% endcall %}", "{% macro f(l) %}{% for x in l %}{{ caller(x) }},{% endfor %}{% endmacro %}{% call(y) f([1, 2]) %}[{{ y }}]{% endcall %}", "{% macro f(a, b, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 1, 'b': 2}) }}{{ f(1, *[2], **{'c': 4}) }}", "{{ dict(**{'a': 1}) }}{{ dict({'x': 1}, **{'y': 2}) }}",
]
STATEMENTS += [f"1\n {left} set x = 1 {right}\n\n 2 {{{{- x }}}}\n" for left, right in itertools.product(("{%", "{%-", "{%+"), ("%}", "-%}", "+%}"))]
STATEMENTS += [f"1\n {left} c {right} \n 2" for left, right in itertools.product(("{#", "{#-", "{#+", "{{- '", "{{+ '"), ("#}", "-#}", "+#}", "' }}", "' -}}")) if (left[1] == "#") == (right[-2] == "#")]


class Date(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)


def render(template):
    """Return the output of a template, or None if it fails."""
    try:
        return chat_template_utils._compile_jinja_template(template).render(**CONTEXT)
    except Exception:  # from jinja2, and Python exceptions that pass through it
        return None


def split(line):
    """Return the expressions of a line, separated by ` | `."""
    return line.split(" | ")


def templates():
    lines = EXPRESSIONS.replace("\\\n", "\\\x00").split("\n")
    for line in lines:
        for expression in split(line.replace("\x00", "\n")):
            yield "{{ " + expression + " }}"
    for value in VALUES:
        yield "{{ %s }}{{ 1 if %s else 0 }}{{ %s is defined }}" % (value, value, value)
        for name in ("string", "list", "length", "tojson", "upper", "first", "last", "sort", "join(',')", "int", "float", "abs", "default('d')", "reverse|list", "sum", "unique|list"):
            if (value, name) != ("1e300", "int"):  # beyond 64 bits
                yield "{{ %s|%s }}" % ("(" + value + ")" if value[0] == "-" else value, name)
    for (a, b), sign in itertools.product(itertools.combinations(VALUES[:10] + VALUES[15:], 2), ("+", "*", "<", "==", "in", "%", "~", "and")):
        if (len(a) * 7 + len(b) * 3 + len(sign)) % 3 == 0 and "%" != sign:
            yield "{{ %s %s %s }}" % (a, sign, b)
    yield from STATEMENTS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "chat_templates"
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=default)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    chat_template_utils.datetime = Date
    rows, seen = [], set()
    for template in templates():
        text = render(template)
        # Addresses, and the UTF-8 of surrogates, differ from run to run.
        if template in seen or (text is not None and (" at 0x" in text or any(0xD800 <= ord(c) < 0xE000 for c in text))):
            continue
        seen.add(template)
        rows.append([template] if text is None else [template, text])
    dump = lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    lines = ",\n".join(dump(row) for row in rows)
    (directory / "cases.json").write_text('{"now":%d,"context":%s,\n"cases":[\n%s\n]}\n' % (NOW, dump(CONTEXT), lines))
    print(f"{len(rows)} templates, {sum(len(row) == 1 for row in rows)} of which fail")


if __name__ == "__main__":
    main()
