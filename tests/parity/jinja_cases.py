"""The cases of jinja_parity.py: variants of chats, features one by one, random templates."""

import itertools
import json
import random
import unicodedata

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a place <now> & \"later\"",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "default": 3}}, "required": ["location"]},
    "return": {"type": "number", "description": "degrees"}}}
BARE_TOOL = {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}
CALL = {"id": "call_12345", "type": "function", "function": {
    "name": "get_weather", "arguments": {"location": "Zürich", "days": 2, "nested": {"a": [1, None, 1.5]}}}}
TEXT_CALL = {"id": "abcdefghi", "type": "function", "function": {
    "name": "get_weather", "arguments": "{\"location\": \"Paris\"}"}}


def user(text="How are you?"):
    return {"role": "user", "content": text}


def assistant(text="Fine, thanks.", **more):
    return {"role": "assistant", "content": text, **more}


def parts(*texts):
    return [{"type": "text", "text": t} for t in texts]


CHATS = {
    "one": [user()],
    "turns": [user(), assistant(), user("And now?")],
    "ends with assistant": [user(), assistant()],
    "system": [{"role": "system", "content": "Be brief.\n"}, user(), assistant(), user("And now?")],
    "developer": [{"role": "developer", "content": "Be brief."}, user()],
    "two users": [user("a"), user("b")],
    "assistant first": [assistant(), user()],
    "two systems": [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}, user()],
    "system last": [user(), {"role": "system", "content": "late"}],
    "spaces": [user("  spaces \n\n"), assistant("\t tabs "), user("\n")],
    "empty text": [user(""), assistant(""), user("x")],
    "unicode": [user("Grüße, 世界 🤗 \u200b ﬁ ß İ"), assistant("<|im_end|> {{ 1 }} {% if %}"), user("'\"\\")],
    "parts": [user(parts("Look", " here")), assistant(parts("Yes")), user(parts("more"))],
    "system parts": [{"role": "system", "content": parts("Be brief.")}, user(parts("hi"))],
    "image": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])],
    "image url": [user([{"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": "?"}])],
    "null content": [user(), assistant(None), user("x")],
    "missing content": [user(), {"role": "assistant"}, user("x")],
    "missing role": [{"content": "x"}],
    "odd role": [{"role": "narrator", "content": "x"}],
    "number content": [user(5)],
    "thinking": [user(), assistant("<think>\nhm\n</think>\n\nYes."), user("Sure?")],
    "reasoning": [user(), assistant("Yes.", reasoning_content="I thought.\n"), user("Sure?")],
    "reasoning 2": [user(), assistant("Yes.", reasoning="Thought."), user("Sure?"), assistant("Yes!", thinking="again")],
    "tool call": [user("Weather?"), assistant("", tool_calls=[CALL]),
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call_12345", "content": "{\"temp\": 20}"},
                  assistant("20 degrees."), user("Thanks")],
    "tool call text": [user("Weather?"), assistant(None, tool_calls=[TEXT_CALL]),
                       {"role": "tool", "tool_call_id": "abcdefghi", "content": "sunny"}],
    "parallel calls": [user("Weather?"), assistant("Let me see.", tool_calls=[CALL, TEXT_CALL]),
                       {"role": "tool", "name": "get_weather", "content": "20"},
                       {"role": "tool", "name": "get_weather", "content": parts("22")}, assistant("Ok"), user("!")],
    "calls without content": [user("Weather?"), {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]},
                              {"role": "tool", "name": "f", "content": None}],
    "bare calls": [user("W"), assistant("", tool_calls=[{"name": "get_weather", "arguments": {"location": "X"}}]),
                   {"role": "ipython", "content": {"temp": 1.0}}],
    "empty calls": [user("W"), assistant("no", tool_calls=[]), user("x")],
    "tool first": [{"role": "tool", "content": "x"}],
    "none": [],
    "long": [m for i in range(20) for m in (user(f"Question {i}?\n" * 3), assistant(f"Answer {i}. " * 5))] + [user("end")],
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def input_of(data):
    """The variables of a rendering as a ChatInput."""
    own = {k: data[k] for k in ("messages", "tools", "documents", "add_generation_prompt") if k in data and data[k] is not None}
    rest = {k: v for k, v in data.items() if k not in ("messages", "tools", "documents", "add_generation_prompt")}
    return {**own, "variables": rest, "now": 1752148800}


def variants(templates):
    cases = []
    settings = [
        {}, {"add_generation_prompt": True},
        {"tools": [TOOL], "add_generation_prompt": True},
        {"tools": [TOOL, BARE_TOOL]}, {"tools": []},
        {"add_generation_prompt": True, "variables": {"enable_thinking": True, "thinking": True}},
        {"add_generation_prompt": True, "variables": {"enable_thinking": False, "thinking": False, "reasoning_effort": "high"}},
        {"documents": [{"title": "Doc", "text": "Body <b>"}], "add_generation_prompt": True},
        {"continue_final_message": True},
        {"variables": {"date_string": "1 Jan 2025", "tools_in_user_message": False, "builtin_tools": ["brave_search"]}, "tools": [TOOL]},
        {"variables": {"add_vision_id": True, "preserve_thinking": True, "keep_past_thinking": True, "custom_tools": [TOOL]}},
    ]
    seen = set()
    for _, template in templates:
        if template in seen:
            continue
        seen.add(template)
        for chat, setting in itertools.product(CHATS.values(), settings):
            cases.append((template, {"messages": chat, "special_tokens": TOKENS, "now": 1752148800, **setting}))
    return cases


VALUES = {
    "s": "Hello World", "e": "", "u": "Grüße ß ﬁ 世界🤗", "ws": "  a b\tc\n", "h": "<a href='x'>&\"</a>", "lines": "a\nb\r\nc\n\nd",
    "n": 7, "z": 0, "neg": -3, "big": 2**40, "f": 2.5, "ff": -0.125, "t": True, "fl": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "lm": [1, "a", None], "el": [], "ll": [[1, 2], [3, 4]], "lf": [1.5, 1, True],
    "d": {"a": 1, "b": "x", "items": 5, "c": [1, 2]}, "ed": {}, "dd": {"k": {"x": [1, {"y": "deep"}]}},
    "objs": [{"n": "b", "v": 2, "g": "x"}, {"n": "a", "v": 1, "g": "y"}, {"n": "C", "v": 1, "g": "x"}],
}


def case(template, **more):
    return (template, {"variables": VALUES, **more})


EXPRESSIONS = r"""
n + 1|n - 2.5|n * 3|n / 2|n // 2|n % 4|neg // 2|neg % 2|f // 1|ff % 1|n ** 2|2 ** -1|2 ** 0.5|-2 ** 2|n / 0|n // 0|n % 0|f % 0|0 ** -1
s + ' x'|s + 1|1 + s|l + [4]|(1,) + (2,)|l + (1,)|s * 2|2 * s|l * 2|s * -1|s * 1.5|nil + 1|u1 + 1|-s|+t|-t|not n|not u1
n ~ s ~ nil ~ f ~ u1|l ~ d|1 == 1.0|1 == true|'1' == 1|l == [3, 1, 2]|l == (3, 1, 2)|d == {'a': 1}|ed == {}|nil == none|u1 == u2|1 != 2
1 < 2 < 3|1 < 2 > 3|1 < 'a'|'a' < 'b'|[1, 2] < [1, 3]|(1, 'a') < (2, 0)|nil < 1|n >= 7|n <= 6.9|t < 2|u1 < 1
'ell' in s|'x' not in s|1 in l|'a' in d|[1] in ll|[1, 2] in ll|1 in s|u1 in s|1 in u1|nil in lm|'' in s|[] in d|1 in 5|2 in range(3)|2.0 in range(3)
s[0]|s[-1]|s[100]|s[1:4]|s[::-1]|s[-3:]|s[:-3]|s[::2]|s[5:1:-1]|s[1:1]|u[6:9]|u[::-1]|u[-1]|u[1]|l[0]|l[-1]|l[9]|l[1:]|l[::-1]|l['a']|s['x']|d['a']|d.a|d.zz|d['zz']|d[0]|d.items|d['items']|ed.items|d.keys()|d.values()|ed.items()|d.c[0]|d.c.0|dd.k.x.1.y|nil.x|n.x|u1.x|u1[0]|u1[1:]|nil[1:]|d[1:]|l[1.0]|l[true]|l['0']|s[n:]|s['a':]|range(10)[2:8:2]|range(5)[1]|range(5)[-1]|d[[]]|(1, 2)[0]
s.upper()|s.lower()|s.title()|s.capitalize()|s.swapcase()|u.upper()|u.lower()|u.title()|u.capitalize()|ws.strip()|ws.lstrip()|ws.rstrip()|s.strip('Hd')|s.split()|s.split('o')|s.split('o', 1)|s.rsplit('o', 1)|ws.split()|ws.rsplit(none, 1)|s.split('')|s.split(sep='l', maxsplit=1)|lines.splitlines()|lines.splitlines(true)|s.partition('o')|s.rpartition('o')|s.partition('zz')|s.replace('l', 'L')|s.replace('l', 'L', 1)|s.replace('', '-')|s.replace('', '-', 3)|s.find('o')|s.rfind('o')|s.find('zz')|s.index('o')|s.index('zz')|s.find('o', 5)|s.find('', 20)|s.count('l')|s.count('')|s.count('o', 5)|u.find('世')|s.startswith('He')|s.startswith(('x', 'H'))|s.endswith('ld')|s.endswith('l', 0, 4)|s.startswith('')|s.startswith(1)|s.isdigit()|'12'.isdigit()|'²'.isdigit()|'12'.isdecimal()|'½'.isnumeric()|s.isalpha()|'ab1'.isalnum()|s.isupper()|'AB'.isupper()|'a b'.islower()|''.islower()|s.istitle()|' '.isspace()|s.isascii()|u.isascii()|s.isprintable()|ws.isprintable()|s.zfill(15)|'-5'.zfill(4)|s.center(20, '*')|s.ljust(15, '.')|s.rjust(15)|'abc'.center(6)|'abcd'.center(7)|','.join(ls)|','.join(l)|''.join([])|s.removeprefix('Hello')|s.removesuffix('World')|s.nope()|s.nope
l.append(4)|l.append|l.pop()|d.pop('a')|d.update({})|l.count(1)|l.index(2)|l.index(9)|l.copy()|d.copy()|d.get('a')|d.get('zz')|d.get('zz', 5)|d.get()|d.get([])|(1, 2, 1).count(1)|s.__class__|d.__class__|s.format|l.sort()
'{} {}'.format(1, 'a')|'{0} {1} {0}'.format(1, 'a')|'{x}'.format(x=5)|'{:5}|'.format('ab')|'{:>5}|'.format('ab')|'{:^5}|'.format('ab')|'{:05d}'.format(42)|'{:.2f}'.format(f)|'{:,}'.format(1234567)|'{:x} {:#x} {:b}'.format(255, 255, 5)|'{!r}'.format('a')|'{{}}'.format()|'{}'.format()|'{:e}'.format(12345.678)|'{:g}'.format(0.00001)|'{:%}'.format(0.25)|'{0[a]} {0.b}'.format(d)|'{:{w}}|'.format('x', w=4)|'{:+d}'.format(5)|'{:.3}'.format('abcdef')|'{:s}'.format(5)|'{:d}'.format('x')|'{:.1f}'.format(5)|'{} {0}'.format(1, 2)|'{'.format()|'}'.format()|'{:.2}'.format(3.14159)|'{:10.3}|'.format(2.0)|'{:_}'.format(1234567)|'{:c}'.format(65)|'{}'.format(true)|'{:d}'.format(true)|'{:5}'.format(true)|'{:5}|'.format(none)
'%s %d' % ('a', 5)|'%5s|%-5s|' % ('a', 'b')|'%05d' % 42|'%.2f' % f|'%x %X %o' % (255, 255, 8)|'%r' % s|'%%' % ()|'%s' % nil|'%s' % [1]|'%s' % (1, 2)|'%d' % 'a'|'%(a)s' % d|'%(zz)s' % d|'%e' % f|'%g' % 1e20|'%+d' % 5|'% d' % 5|'%#x' % 255|'%c' % 65|'%c' % 'z'|'%5.1f|' % f|'%s' % u1|'abc' % 1|'abc' % {}|'abc' % []|'%s %s' % 1|'%*d' % (5, 3)|'%i' % 2.7|'%s' % 1.0
s|upper|s|lower|s|title|s|capitalize|u|title|u|upper|'foo-bar (baz) a_b'|title|ws|trim|s|trim('Hd')|s|length|u|length|l|length|d|length|n|length|u1|length|nil|length|s|count
""".strip()

FILTERS = [
    "s|upper", "s|lower", "u|title", "'foo-bar (baz) a_b {x} [y] <z>'|title", "ws|trim", "s|trim('Hd')", "s|length", "u|length", "l|length", "d|length", "n|length",
    "u1|length", "nil|length", "nil|upper", "n|upper", "u1|upper", "l|upper", "s|replace('l', 'L')", "s|replace('l', 'L', 1)", "s|replace('l')", "n|replace('7', 'x')", "s|replace(1, 2)",
    "l|join(', ')", "l|join", "ls|join('-')", "objs|join(',', attribute='n')", "s|join(',')", "d|join(',')", "nil|join", "u1|join", "l|join(1)", "lm|join('|')",
    "l|first", "l|last", "s|first", "s|last", "el|first", "el|last", "d|first", "d|last", "nil|first", "range(3)|last", "u1|first", "u1|last", "(l|map('string'))|first", "(l|map('string'))|last",
    "l|sort", "ls|sort", "ls|sort(case_sensitive=true)", "l|sort(reverse=true)", "objs|sort(attribute='n')", "objs|sort(attribute='v,n')|map(attribute='n')|list", "lm|sort", "d|sort", "s|sort", "lf|sort", "nil|sort", "el|sort", "[nil]|sort", "ll|sort(reverse=true)", "ls|sort(true, true)", "objs|sort",
    "d|dictsort", "d|dictsort(by='value')", "{'b': 1, 'A': 2}|dictsort", "{'b': 1, 'A': 2}|dictsort(true)", "{'b': 1, 'A': 2}|dictsort(by='value', reverse=true)", "d|dictsort(by='x')", "l|dictsort",
    "l|min", "l|max", "ls|min", "ls|max", "el|max", "lm|max", "objs|max(attribute='v')", "objs|min(attribute='n')", "s|max", "lf|max", "lf|min",
    "l|sum", "lf|sum", "ls|sum", "el|sum", "l|sum(start=10)", "objs|sum(attribute='v')", "ll|sum(start=[])", "nil|sum", "el|sum('', 'x')",
    "l|unique|list", "ls|unique|list", "['a', 'A', 'b', 'a']|unique|list", "['a', 'A']|unique(true)|list", "ll|unique|list", "ll|unique", "objs|unique(attribute='g')|map(attribute='n')|list", "[1, 1.0, true]|unique|list",
    "l|reverse|list", "s|reverse", "u|reverse", "d|reverse|list", "nil|reverse", "l|reverse", "range(4)|reverse|list", "el|reverse|list", "(l|map('string'))|reverse", "(l|reverse)|length",
    "l|batch(2)|list", "l|batch(2, 'x')|list", "l|slice(2)|list", "l|slice(2, 'x')|list", "range(7)|slice(3, 0)|list", "l|slice(0)|list", "l|batch(0)|list", "el|batch(2, 0)|list", "el|slice(3)|list",
    "l|list", "s|list", "d|list", "nil|list", "u1|list", "n|list", "range(3)|list", "d.items()|list", "u|list",
    "l|map('string')|list", "ls|map('upper')|list", "objs|map(attribute='n')|list", "objs|map(attribute='zz')|list", "objs|map(attribute='zz', default='-')|list", "objs|map(attribute='zz', default=none)|list", "l|map('nope')|list", "l|map|list", "ls|map('replace', 'a', 'x')|list", "l|map('round', method='ceil')|list", "u1|map('upper')|list", "nil|map('upper')|list", "n|map('abs')|list", "l|map('float')|list", "ll|map('sum')|list", "ll|map(attribute=0)|list", "objs|map(attribute='n', x=1)|list", "ll|map('first')|list", "z|map('upper')|list",
    "l|select('odd')|list", "l|reject('odd')|list", "l|select|list", "lm|select|list", "lm|reject|list", "l|select('gt', 1)|list", "l|select('>', 1)|list", "l|select('in', [1, 2])|list", "l|select('divisibleby', 2)|list", "lm|select('string')|list", "l|select('nope')|list", "lm|select('odd')|list", "lm|select('none')|list",
    "objs|selectattr('v', 'equalto', 1)|map(attribute='n')|list", "objs|selectattr('v')|list|length", "objs|selectattr('zz')|list|length", "objs|rejectattr('v', 'eq', 1)|list", "objs|selectattr('zz', 'defined')|list", "objs|rejectattr('zz', 'defined')|list|length", "objs|selectattr|list", "objs|selectattr('n', 'in', 'ab')|list|length", "l|selectattr('x')|list", "lm|selectattr('x', 'undefined')|list|length", "[u1]|selectattr('x')|list", "objs|selectattr('v', 'eq')|list",
    "objs|groupby('g')", "objs|groupby('g')|map(attribute='grouper')|list", "objs|groupby('v')|map('last')|map('length')|list", "objs|groupby(attribute='zz', default='none')|list|length", "['b', 'A', 'a']|groupby(0)|list",
    "d|items|list", "u1|items|list", "l|items|list", "l|items", "nil|items|list", "dd|items|first",
    "n|string", "f|string", "nil|string", "l|string", "d|string", "u1|string", "s|string", "t|string", "[u1]|string", "h|string", "[s, h, u, ws, lines]|string", "['\\'', '\"', '\\'\"', '\\\\', '\\x00\\x7f\\xa0\\u200b\\ue000']|string", "(1,)|string", "()|string", "range(1, 9, 2)|string", "range(4)|string", "d.keys()|string", "d.items()|string", "[1e16, 1e15, 123456789012345678.0, 1e-4, 1e-5, 0.1, 1.0, -0.0, 1e300, 5e-324]|string", "{1: 2, none: 3, 1.5: 4, true: 5, (1, 2): 6}|string",
    "s|int", "'5'|int", "' 5 '|int", "'5.7'|int", "'-5'|int", "'0x1f'|int", "'0x1f'|int(0, 16)", "'ff'|int(base=16)", "'1_000'|int", "f|int", "nil|int", "nil|int(9)", "u1|int", "t|int", "l|int", "'1e3'|int", "''|int(7)", "'0b11'|int(base=0)", "'12'|int(base=3)", "'zz'|int('d')",
    "s|float", "'5.5'|float", "n|float", "nil|float", "u1|float", "'1e5'|float", "'inf'|float", "'-.5'|float", "'1_0.5'|float", "'x'|float('d')", "t|float", "'nan'|float", "' 2 '|float", "'0x10'|float",
    "neg|abs", "ff|abs", "t|abs", "s|abs", "n|round", "f|round", "3.5|round", "2.675|round(2)", "1234.5|round(-2)", "f|round(method='ceil')", "f|round(method='floor')", "ff|round(2, 'ceil')", "n|round(1, 'floor')", "f|round(method='x')", "s|round", "n|round(-1)", "15|round(-1)", "0.5|round", "1.5|round", "-2.5|round|int", "f|round(0, 'ceil')", "42.55|round(1)", "5|round(method='ceil')",
    "u1|default('x')", "u1|default", "nil|default('x')", "nil|default('x', true)", "e|d('x', boolean=true)", "d.zz|default(1)", "d.zz.y|default(1)", "z|default(5)", "u1|default(default_value=3)",
    "lines|indent", "lines|indent(2)", "lines|indent(2, true)", "lines|indent(2, true, true)", "lines|indent(width='> ')", "lines|indent(first=true)", "lines|indent(blank=true)", "e|indent", "n|indent", "'a\\n'|indent", "'a\\n\\n'|indent(1)", "e|indent(2, true)",
    "s|truncate(8)", "s|truncate(8, true)", "s|truncate(5, true, '..', 0)", "s|truncate(20)", "s|truncate(1)", "s|truncate(5, leeway=0)", "u|truncate(6, true, leeway=0)", "('abc ' * 20)|truncate(30)",
    "s|center(20)", "s|center", "'abc'|center(6)", "s|wordcount", "u|wordcount", "'a_b c-d'|wordcount", "e|wordcount",
    "h|e", "h|escape", "h|safe", "h|safe|e", "h|safe|upper", "h|forceescape", "h|e|forceescape", "'<' + h|safe", "h|safe + '<'", "('<'|safe) + '>'", "'<' ~ h|safe", "[h|safe]", "(h|safe)[0:4] + '<'", "(h|safe)|replace('<', '>')", "(h|safe)|length", "(h|safe).upper() + '<'", "h|safe|string + '<'", "(h|safe) * 2 + '<'", "(h|safe).split('=')[0] + '<'", "'%s<' % h|safe", "(h|safe)|join(',')", "('<'|safe).join(['>', '&'])", "n|e", "nil|e", "(h|safe) == h", "(h|safe) in [h]", "(h|safe) is escaped", "(h|safe) is string", "h|safe|tojson", "h|safe|trim + '<'", "h|safe|indent", "['<', '>'|safe]|join('&')",
    "s|urlencode", "'a b/c?d=é'|urlencode", "d|urlencode", "[('a', 'b c'), ('d', 1)]|urlencode", "n|urlencode", "l|urlencode", "nil|urlencode",
    "n|filesizeformat", "1|filesizeformat", "1500|filesizeformat", "2000000|filesizeformat", "2000000|filesizeformat(true)", "big|filesizeformat", "'5'|filesizeformat", "s|filesizeformat", "1e30|filesizeformat", "0.5|filesizeformat",
    "'%s-%s'|format(1, 2)", "'%(a)s'|format(a=1)", "'%s'|format(1, a=2)", "'%05.1f'|format(f)", "n|format", "'%s'|format", "'%d%%'|format(5)",
    "d|attr('a')", "d|attr('keys')", "s|attr('upper')", "u1|attr('x')", "objs|attr('x')", "s|attr('upper')()", "d|attr('zz') is defined",
    "d|tojson", "l|tojson", "s|tojson", "u|tojson", "u|tojson(ensure_ascii=true)", "h|tojson", "d|tojson(indent=2)", "dd|tojson(indent=4)", "d|tojson(indent=0)", "d|tojson(indent='--')", "ed|tojson(indent=2)", "[el, ed]|tojson(indent=1)", "d|tojson(separators=(',', ':'))", "d|tojson(sort_keys=true)", "{'b': 1, 'a': 2}|tojson(sort_keys=true)", "{2: 1, 'a': 2}|tojson(sort_keys=true)", "d|tojson(true)", "d|tojson(false, 2)", "nil|tojson", "t|tojson", "f|tojson", "1e20|tojson", "u1|tojson", "[u1]|tojson", "(1, 2)|tojson", "range(3)|tojson", "d.items()|tojson", "{1: 2, none: 3, 1.5: 4, true: 5}|tojson", "{(1, 2): 3}|tojson", "ws|tojson", "'\\x00\\x1f\\x7f\\u2028/'|tojson", "d|tojson(indent=true)", "d|tojson(indent=none)", "d|tojson(separators=(', ', ': '), indent=2)", "objs|tojson(indent=2)", "l|map('string')|tojson", "d|tojson(nope=1)", "namespace(a=1)|tojson", "'inf'|float|tojson",
    "n is odd", "n is even", "f is odd", "s is odd", "u1 is odd", "n is divisibleby 7", "n is divisibleby(3)", "n is divisibleby 0", "n is defined", "u1 is defined", "d.zz is defined", "d.a is defined", "u1 is undefined", "nil is none", "u1 is none", "t is boolean", "n is boolean", "t is true", "n is true", "fl is false", "z is false", "n is integer", "t is integer", "f is integer", "f is float", "n is float", "n is number", "t is number", "s is number", "s is string", "n is string", "d is mapping", "l is mapping", "l is sequence", "s is sequence", "d is sequence", "n is sequence", "u1 is sequence", "range(2) is sequence", "d.items() is sequence", "l is iterable", "n is iterable", "u1 is iterable", "nil is iterable", "d.keys() is iterable", "(l|map('string')) is iterable", "s is lower", "'a' is lower", "'A' is upper", "n is lower", "range is callable", "s is callable", "s.upper is callable", "u1 is callable", "n is sameas 7", "t is sameas true", "nil is sameas none", "s is in ['x', 'Hello World']", "1 is in l", "1 is in 5", "n is eq 7", "n is equalto 7.0", "n is ne 7", "n is gt 3", "n is greaterthan 3", "n is lt 3", "n is lessthan 30", "n is ge 7", "n is le 6", "s is lt 5", "n is == 7", "'upper' is filter", "'nope' is filter", "'odd' is test", "n is not odd", "not n is odd", "n is odd and t", "n is string or t", "s is escaped", "n is odd is true", "d.items is defined", "l.append is defined", "n is nope", "n is defined(1)", "n is in", "nil is not none", "n is not none and n > 3",
    "'a' if t else 'b'", "'a' if fl else 'b'", "'a' if fl", "('a' if fl) is defined", "'a' if u1 else 'b' if fl else 'c'", "[1 if t else 2, 3]", "t and s", "e or 'x'", "nil or z or e", "n and z and s", "not e", "t or u1.x", "fl and u1.x",
    "[1, 'a', none, true, 1.5, [], {}]", "{'a': 1, 'b': [1]}", "(1, 2)", "()", "(1)", "(1,)", "[]", "{}", "{'a': 1,}", "[1,]", "{[]: 1}", "{u1: 1}", "{'a': 1, 'a': 2}", "'a' 'b'", "1_000", "0x1F", "0b101", "0o17", "1e3", "1.5e-3", "1.0", "00", "9223372036854775807", "9223372036854775808", "'\\n\\t\\x41\\u00e9\\U0001f600\\101\\q\\\\'", "'\\é'", "\"it's\"", "1, 2", "true", "True", "none", "None", "null", "n.real", "l[0], l[1]",
    "range(5)|list", "range(2, 8, 2)|list", "range(5, 0, -2)|list", "range(0)|list", "range(1, 2, 0)", "range('a')", "range(1.5)", "range(100000)|length", "range(100001)", "range(10)", "range()", "dict(a=1)", "dict([('a', 1)], b=2)", "dict({'a': 1})", "dict(l)", "dict()", "namespace(a=1).a", "namespace()", "namespace(a=1)", "namespace({'a': 1}).a", "namespace(_a=1)", "cycler('a', 'b').next()", "joiner(',')()", "cycler()", "lipsum()", "nope()", "nope(1)", "raise_exception('boom')", "raise_exception()", "raise_exception(5)", "strftime_now('%Y-%m-%d %H:%M')", "strftime_now('%d %b %Y')", "strftime_now('')", "strftime_now('%')", "s()", "n()", "nil()", "d.a()", "u1()", "dict.fromkeys(l)", "dict.fromkeys('ab', 1)", "range(*l)", "range(*[3])|list", "dict(**d)", "dict(**n)", "dict(*l)", "dict(a=1, a=2)", "dict(a=1, **{'a': 2})", "range(n=1)", "s|upper()", "s|upper(1)", "s|nope", "(s)|upper.x", "s.upper|string|length > 3", "loop", "caller()", "varargs", "messages", "tools", "documents", "add_generation_prompt", "if", "in", "is", "not", "and",
    "s s", "s +", "(s", "s)", "[1", "{'a'}", "{'a': }", "s..x", "s.[0]", "s[", "s[]", "s[1,]", "s[1,2]", "s[1:2, 3]", "s|", "s is", "1 = 2", "a b c", "'abc", "s !", "s ? 1", "@", "$", "s; 1", "{{ s }}", "%}", "1 if", "not", "*l", "f(", "f(a b)", "f(*a, b)", "f(**a, *b)", "f(a=1, b)", "s.1x", "1.s", "1.5.6", "lambda: 1", "[x for x in l]", "s[1:2:3:4]", "s if t else", "((((((((((1))))))))))", "-(-(-1))", "not not not t", "- - 1", "2 ** 3 ** 2", "10 - 2 - 3", "2 + 3 * 4", "(2 + 3) * 4", "7 // 2 * 2", "1 ~ 2 + 3", "'a' ~ 'b' in 'ab'", "1 + 2 ~ 3", "1 < 2 == true", "not 1 in l", "1 not in l", "-n|abs", "(-n)|abs", "n|abs + 1", "-1.5|round", "'a' + 'b'|upper", "d.a + d.c[0] * 2", "{'a': {'b': 1}}.a.b", "[1, 2, 3][1]", "'abc'[1]", "(1, 2)|length", "'x'.join(['a', 'b'])", "1.0 // 0.3", "5 % -3", "-5 % 3", "5.5 % -2", "1e308 * 10", "2 ** 63", "2 ** 62 * 2", "-9223372036854775807 - 2", "10 ** 30", "2.0 ** 2000", "(-8) ** 0.5", "0.1 + 0.2", "1 / 3", "1e100", "100000000000000000000.0", "3.0", "1e22", "123456.789e3", "9007199254740993 == 9007199254740992.0",
]

STATEMENTS = [
    "{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in l %}{{ loop|length }}{{ loop.nope }}{% endfor %}",
    "{% for x in el %}{{ x }}{% else %}none{% endfor %}", "{% for x in l %}{% continue %}{% else %}none{% endfor %}", "{% for x in l %}{% break %}{% else %}none{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}", "{% for x in l if loop.first %}{{ x }}{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{{ loop.last }}{{ loop.nextitem }}{{ x }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d %}{{ k }}{% endfor %}", "{% for a, b in ll %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in l %}{{ a }}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b, c in ll %}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in nil %}{% endfor %}", "{% for x in u1 %}a{% else %}b{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x, in [[1], [2]] %}{{ x }}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for 1 in l %}{% endfor %}",
    "{% for x in dd.k.x recursive %}{% if x is mapping %}({{ loop(x.values()) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}", "{% for x in [1, [2, [3, 4]], 5] recursive %}{{ '[' ~ loop(x) ~ ']' if x is iterable else x }}{{ loop.index }}{% endfor %}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{% for x in [[], [[]]] recursive %}<{{ loop(x) }}>{% else %}-{% endfor %}",
    "{% for x in l %}{% for y in ll %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}", "{% set y = 0 %}{% for x in l %}{% set y = y + x %}{{ y }}{% endfor %}{{ y }}", "{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% set x = 9 %}{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% for x in l %}{{ z9 }}{% set z9 = x %}{{ z9 }}{% endfor %}", "{% for x in range(3) %}{% if y is defined %}{{ y }}{% endif %}{% set y = x %}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (x, y) = 'ab' %}{{ x }}{{ y }}", "{% set x, y = 1 %}", "{% set x %}a{{ n }}b{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}", "{% set x | length %}abc{% endset %}{{ x + 1 }}", "{% set x %}{% set y = 2 %}{{ y }}{% endset %}{{ x }}{{ y }}", "{% set n = n + 1 %}{{ n }}", "{% set loop = 1 %}{{ loop }}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% set none = 1 %}", "{% set 'a' = 1 %}", "{% set x.y = 1 %}", "{% set d.a = 1 %}", "{% set x = %}", "{% set x %}", "{% set a, b %}xy{% endset %}{{ a }}{{ b }}", "{% set () = [] %}x", "{% set x = u1 %}{{ x is defined }}",
    "{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns }}", "{% set ns = namespace() %}{% set ns.x, y = 1, 2 %}{{ ns.x }}{{ y }}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set ns = namespace() %}{% set ns.x %}abc{% endset %}{{ ns.x }}", "{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [1] %}{{ ns.a }}{{ ns['a'] }}{{ ns is mapping }}{{ ns.zz is defined }}", "{% set ns = namespace(a=1) %}{% set m = ns %}{% set m.a = 5 %}{{ ns.a }}{{ ns == m }}{{ ns == namespace(a=5) }}",
    "{% if n %}a{% elif z %}b{% else %}c{% endif %}", "{% if z %}a{% elif n %}b{% else %}c{% endif %}", "{% if z %}a{% elif e %}b{% else %}c{% endif %}", "{% if z %}a{% endif %}", "{% if u1 %}a{% else %}b{% endif %}", "{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "{% if fl %}{% set x = 1 %}{% endif %}{{ x }}|{{ x is defined }}", "{% if fl %}{% set n = 1 %}{% endif %}{{ n }}", "{% if fl %}{% set q = 1 %}{% elif t %}{% set q = 2 %}{% else %}{% set q = 3 %}{% endif %}{{ q }}", "{% for x in l %}{% if x == 1 %}{% set n = 100 %}{% endif %}{{ n }} {% endfor %}{{ n }}", "{% if %}{% endif %}", "{% if n %}", "{% endif %}", "{% if n %}{% endfor %}", "{% else %}", "{% if 1, 2 %}x{% endif %}", "{% if n is odd and not u1 %}x{% endif %}", "{% if a if b else c %}x{% endif %}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=6) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c=2) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m() %}{{ n }}{% set n = 5 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{% macro m() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m() }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 5 %}{{ m() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a=b, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=3) }}{{ m(1) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{{ n }}{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a + b }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call n %}{% endcall %}", "{% call range(3) %}{% endcall %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}", "{% macro m(*a) %}{% endmacro %}", "{% macro outer() %}{% macro inner(x) %}<{{ x }}{{ n }}>{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}", "{% macro m() %}{% for x in l %}{{ loop.index }}{% endfor %}{% endmacro %}{{ m() }}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% macro m(l) %}{{ l|length }}{% endmacro %}{{ m('abc') }}{{ m(*['x']) }}{{ m(**{'l': 'ab'}) }}", "{% macro m() %}{{ m2() }}{% endmacro %}{% macro m2() %}2{% endmacro %}{{ m() }}", "{% if t %}{% macro m() %}1{% endmacro %}{% endif %}{{ m() }}", "{% macro m(a) -%}  {{ a }}  {%- endmacro %}[{{ m(1) }}]", "{% macro m(a=[]) %}{{ a + [1] }}{% endmacro %}{{ m() }}{{ m() }}", "{% macro m(x=u1) %}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(1) }}", "{% macro r(x) %}{{ r(x) }}{% endmacro %}{{ r(1) }}", "{% set m = 5 %}{% macro m() %}{% endmacro %}{{ m }}", "{% macro m() %}{{ kwargs.x }}{{ kwargs|length }}{% endmacro %}{{ m(x=1, y=2) }}", "{% macro m(n, loop=1) %}{{ n }}{{ loop }}{% endmacro %}{{ m(3) }}",
    "{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% set a = 1 %}{% with a=a + 1 %}{{ a }}{% endwith %}{{ a }}", "{% with a=1, b=a %}{{ b }}{% endwith %}", "{% with a, b = l %}{% endwith %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter upper|replace('A', 'x') %}abc{% endfilter %}", "{% filter length %}abc{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% for x in l %}{% filter upper %}a{% if x == 1 %}{% break %}{% endif %}{% endfilter %}{% endfor %}", "{% for x in l %}{% set y %}a{% if x == 1 %}{% continue %}{% endif %}{% endset %}{{ y }}{% endfor %}",
    "{% generation %}a{{ n }}{% endgeneration %}b", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", "{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% raw %}{{ n }}{% x %}{% endraw %}", "{%- raw -%}  {{ n }}  {%- endraw -%}  x", "a  {% raw %}  b\n{% endraw %}\n c", "{% raw %}", "{# c #}a{#- c -#}  b", "{# {{ x }} {% if %} #}", "{#", "{# a", "{#-#}x", "{{", "{%", "{{ n", "{% if", "}}", "%}", "#}", "{ {", "a{b}c", "{{ '}}' }}", "{{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}}}", "{{ '{{' }}", "{% set x = '%}' %}{{ x }}", "{{- n -}}", " {{- n -}} x", "a\n  {%- if t %}  b  {%- endif %}\nc", "  {% if t %}\n  x\n  {% endif %}\n  y\n", "a {% if t %}\n b", "  {%+ if t %}x{% endif %}", "  {% if t +%}\nx{% endif %}", "{% if t %}\n\n x{% endif -%}\n\n y", "x\n\n", "x\n", "\n", "", "  ", "\r\na\r\nb\r", "a\r{% if t %}\r\nb{% endif %}\r\nc", "  {# c #}\n  x", "x {# c #}\ny", "\t{% set x = 1 %}\nx", "{{ n }}\n{{ n }}\n", "{{ n }}  \n", "{{ n\n}}\n\n{{\nn }}", "\u00a0{% if t %}x{% endif %}", "\u00a0{%- if t %}x{% endif %}", "x\u2003{{- n }}", "{{ s\u00a0}}",
    "{% print n, s %}", "{% print %}", "{% do l.append(1) %}", "{% extends 'x' %}", "{% block a %}{% endblock %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% autoescape true %}{% endautoescape %}", "{% nope %}", "{% 5 %}", "{% %}", "{% for %}", "{% break %}", "{% continue %}", "{% if t %}{% break %}{% endif %}", "{% for x in l %}{% else %}{% break %}{% endfor %}", "{% for x in l %}{% for y in l %}{% else %}{% break %}{% endfor %}{{ x }}{% endfor %}", "{% for x in l %}x{% endfor x %}", "{% endfor %}", "{% for x in l %}{% if x %}{% endfor %}{% endif %}", "{% set x = 1 if t %}{{ x }}", "{% for x in l: %}{{ x }}{% endfor %}", "{% if t: %}x{% else: %}y{% endif %}", "{% set caller = 1 %}{{ caller }}",
    "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = objs|selectattr('v') %}{{ g|length }}", "{% set g = l|select('odd') %}{{ g|first }}{{ g|list }}", "{% set g = lm|select('odd') %}ok", "{% set g = lm|select('odd') %}{% for x in g %}{{ x }}{% endfor %}", "{% set g = l|map('string') %}{% for x in g %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% set g = l|reverse %}{% for x in g %}{{ x }}{% endfor %}{{ g|list }}", "{% set g = l|map('string') %}{{ '1' in g }}{{ g|list }}", "{{ 'x' if l|select('gt', 5) else 'y' }}", "{% set it = d.items() %}{{ it|list }}{{ it|list }}{{ it|length }}", "{% for x in l|map('string') %}{{ loop.length }}{{ loop.revindex }}{{ loop.nextitem }}{{ x }} {% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}", "{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% for g in objs|groupby('g') %}{{ g.grouper }}:{% for o in g.list %}{{ o.n }}{% endfor %};{% endfor %}", "{% for k, v in objs|groupby('v') %}{{ k }}{{ v|length }}{% endfor %}",
    "{% if foo is defined %}{{ foo(1) }}{% endif %}x", "{% if 'nope' is filter %}{{ s|nope }}{% endif %}x", "{{ raise_exception('a\nb') if fl else 'fine' }}", "{% if t %}{{ raise_exception('Only ' ~ s ~ ' & <' ~ n) }}{% endif %}",
    "{{ messages[0].content }}", "{% for m in messages %}{{ m['role'] }}{% endfor %}", "{{ ([1] * 3) ~ (u1 is defined) }}", "{{ l.0 }}{{ d.c.1 }}{{ ll.0.1 }}", "{{ loop is defined }}", "{%- set x -%}  a  {%- endset -%}[{{ x }}]",
    "{% set x = {'a': [1, 2], 'b': {'c': 'd'}} %}{% for k, v in x|items %}{{ k }}{{ v }}{% endfor %}{{ x.b.c }}", "{% set l2 = l + [9] %}{{ l2 }}{{ l }}", "{% set ns = namespace(first=true) %}{% for x in ls %}{% if ns.first %}{% set ns.first = false %}{% else %}, {% endif %}{{ x }}{% endfor %}",
]


def expressions():
    return [part for line in EXPRESSIONS.splitlines() for part in line.split("|")]


def plain_features():
    return [case("{{ " + text + " }}") for text in expressions() + FILTERS] + [case(text) for text in STATEMENTS]


def features():
    cases = [case("{{ " + text + " }}") for text in expressions()]
    for text in FILTERS:
        cases.append(case("{{ " + text + " }}"))
        cases.append(case("{% set r = " + text + " %}[{{ r }}]{{ r is defined }}{{ r is string }}"))
        cases.append(case("{% if " + text + " %}yes{% else %}no{% endif %}"))
        cases.append(case("{% for q in (" + text + ") %}<{{ q }}>{% endfor %}"))
    for text in STATEMENTS:
        cases.append(case(text))
        cases.append(case("  " + text + "\n"))
        cases.append(case("{% for rep in range(2) %}" + text + "{% endfor %}"))
        cases.append(case("{% macro wrap() %}" + text + "{% endmacro %}{{ wrap() }}|{{ wrap() }}"))
    for c in range(0x110000):
        # Characters that are new to, or changed by, a Unicode version after this Python's are left out.
        if unicodedata.category(chr(c)) in ("Cn", "Cs") or c in (0x19B, 0x264):
            continue
        if (c < 0x250 or c % 977 == 0 or 0x1E90 < c < 0x2000 or 0xFB00 <= c < 0xFB20 or 0x10A0 < c < 0x1100):
            cases.append((("{{ x.upper() }}|{{ x.lower() }}|{{ x.title() }}|{{ x.capitalize() }}|{{ [x] }}|{{ x|tojson }}|{{ x.strip() }}|"
                           "{{ x.isalpha() }}{{ x.isspace() }}{{ x.isupper() }}{{ x.islower() }}{{ x.isdecimal() }}"), {"variables": {"x": chr(c)}}))
    return cases


class Grammar:
    """Random templates, most of which are right."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = list(VALUES)
        self.extra = []

    def pick(self, *options):
        return self.r.choice(options)

    def name(self):
        if self.extra and self.r.random() < 0.4:
            return self.r.choice(self.extra)
        return self.r.choice(self.names + ["u1"])

    def const(self):
        return self.pick("0", "1", "2", "-1", "3.5", "0.1", "'a'", "''", "'Hello'", "' x '", "'é世'", "true", "false", "none", "[]", "{}", "'b,a'", "10", "'1'", "1e3", "'<b>'", "\"it's\"")

    def expr(self, depth=3):
        if depth <= 0 or self.r.random() < 0.12:
            return self.const() if self.r.random() < 0.4 else self.name()
        e = lambda: self.expr(depth - 1)
        kind = self.r.randrange(20)
        if kind < 3:
            return f"({e()} {self.pick('+', '-', '*', '/', '//', '%', '~', '+', '~', '==')} {e()})"
        if kind == 3:
            return f"({e()} {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} {e()})"
        if kind == 4:
            return f"({e()} {self.pick('and', 'or')} {e()})"
        if kind == 5:
            return f"({e()} if {e()} else {e()})" if self.r.random() < 0.8 else f"({e()} if {e()})"
        if kind == 6:
            return f"{self.pick('not ', '-', '+', 'not ')}{e()}"
        if kind == 7:
            return f"[{', '.join(e() for _ in range(self.r.randrange(4)))}]"
        if kind == 8:
            return "{" + ", ".join(f"{self.pick(chr(39) + 'k' + chr(39), self.const(), self.name())}: {e()}" for _ in range(self.r.randrange(3))) + "}"
        if kind == 9:
            return f"({e()}).{self.pick('a', 'b', 'items', 'keys', 'n', 'v', '0', '1', 'x', 'c', 'append', 'count')}"
        if kind == 10:
            return f"({e()})[{self.pick(e(), '0', '-1', '1', chr(39) + 'a' + chr(39))}]"
        if kind == 11:
            s = lambda: self.pick("", "", "0", "1", "-1", "2", "-2", "5", self.name())
            return f"({e()})[{s()}:{s()}{self.pick('', '', ':' + s())}]"
        if kind == 12:
            return f"({e()}).{self.method(depth)}"
        if kind == 13:
            return f"({e()}) is {self.pick('', '', 'not ')}{self.test(depth)}"
        if kind == 14:
            return f"({e()}, {e()})" if self.r.random() < 0.7 else f"({e()},)"
        return f"({e()})|{self.filter(depth)}"

    def method(self, depth):
        e = lambda: self.expr(depth - 2)
        return self.pick(
            "upper()", "lower()", "strip()", "title()", "capitalize()", f"split({e()})", "split()", f"split({e()}, {self.pick('1', '2', '-1')})", f"replace({e()}, {e()})", f"startswith({e()})",
            f"endswith({e()})", f"find({e()})", f"count({e()})", f"join({e()})", f"strip({e()})", "items()", "keys()", "values()", f"get({e()})", f"get({e()}, {e()})", f"format({e()}, {e()})",
            f"index({e()})", "splitlines()", f"partition({e()})", f"rsplit({e()}, 1)", f"ljust({self.pick('5', '12', e())}, '*')", "isdigit()", "isupper()", f"zfill({self.pick('3', '9')})", "copy()", f"lstrip({e()})", f"rstrip({e()})", "swapcase()", f"center({self.pick('6', '11')})", f"removeprefix({e()})", f"rfind({e()}, 1, {self.pick('3', '-1', '9')})")

    def test(self, depth):
        e = lambda: self.expr(depth - 2)
        return self.pick("defined", "none", "string", "mapping", "iterable", "number", "sequence", "odd", "even", "true", "false", "boolean", "integer", "float", "lower", "upper", "undefined", "callable", "escaped",
                         f"eq({e()})", f"in({e()})", f"gt({e()})", f"le({e()})", f"ne({e()})", f"divisibleby({self.pick('2', '3', e())})", f"sameas({self.pick('true', 'none', 'false')})")

    def filter(self, depth):
        e = lambda: self.expr(depth - 2)
        return self.pick(
            "upper", "lower", "trim", "length", "first", "last", "list", "join(', ')", f"join({e()})", "sort", "sort(reverse=true)", "reverse|list", "string", "int", "float", "abs", "round", f"round({self.pick('1', '2', '0')})",
            f"default({e()})", f"default({e()}, true)", "tojson", "tojson(indent=2)", "title", "capitalize", "unique|list", "min", "max", "sum", "map('string')|list", "map(attribute='n')|list", "map('upper')|list",
            f"selectattr('{self.pick('n', 'v', 'zz')}', 'eq', {e()})|list", f"select('{self.pick('odd', 'string', 'none', 'defined')}')|list", "reject('none')|list", "rejectattr('v')|list", "items|list", "dictsort", "batch(2)|list", "slice(2)|list",
            f"replace({e()}, {e()})", "indent(2)", "wordcount", "e", "safe", "truncate(5, true, '.', 0)", "count", "groupby('g')|list", "urlencode", "filesizeformat", f"format({e()})", f"attr('{self.pick('a', 'upper', 'items')}')", "map('length')|list", "tojson(separators=(',', ':'), sort_keys=true)", "forceescape", "center(9)", "select|list", "map('first')|list", "map('default', 'q')|list")

    def stmt(self, depth):
        body = lambda: self.body(depth - 1)
        kind = self.r.randrange(14)
        x = self.pick("x", "y", "w", "n", "s")
        if depth <= 0 or kind < 3:
            return "{{ " + self.expr(self.r.randrange(1, 3)) + " }}"
        if kind == 3:
            self.extra.append(x)
            return f"{{% set {x} = {self.expr(2)} %}}"
        if kind == 4:
            return f"{{% if {self.expr(2)} %}}{body()}{self.pick('', '{% else %}' + body(), '{% elif ' + self.expr(2) + ' %}' + body() + '{% else %}' + body())}{{% endif %}}"
        if kind in (5, 6):
            self.extra.append(x)
            target = self.pick(x, x, x, "k, v")
            over = self.pick("l", "ls", "objs", "ll", "d.items()", "d", "range(3)", self.expr(2))
            cond = self.pick("", "", "", f" if {self.expr(2)}")
            inner = body() + self.pick("", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}", "{{ loop.nextitem }}", "{% if loop.first %}{% continue %}{% endif %}", "{% if " + self.expr(1) + " %}{% break %}{% endif %}") + body()
            return f"{{% for {target} in {over}{cond} %}}{inner}{self.pick('', '', '{% else %}' + body())}{{% endfor %}}"
        if kind == 7:
            self.extra.append("ns.a")
            return f"{{% set ns = namespace(a={self.expr(1)}) %}}{{% set ns.a = {self.expr(2)} %}}{{{{ ns.a }}}}"
        if kind == 8:
            m = self.pick("m", "m2")
            call = self.pick("", "1", self.expr(1), "b=2", f"{self.expr(1)}, {self.expr(1)}", "*l", "a=1, c=2")
            self.extra += ["a"]
            return f"{{% macro {m}(a, b={self.expr(1)}) %}}{body()}{{{{ a }}}}{{{{ b }}}}{{% endmacro %}}{{{{ {m}({call}) }}}}"
        if kind == 9:
            return f"{{% set {x} %}}{body()}{{% endset %}}{{{{ {x} }}}}"
        if kind == 10:
            return f"{{% filter {self.pick('upper', 'trim', 'indent(2)', 'replace(' + chr(39) + 'a' + chr(39) + ', ' + chr(39) + 'b' + chr(39) + ')')} %}}{body()}{{% endfilter %}}"
        if kind == 11:
            return f"{{% with {x} = {self.expr(2)} %}}{body()}{{% endwith %}}"
        if kind == 12:
            return self.pick("  ", "\n", " \n  ", "text ", "{# c #}", "{#- c #}\n")
        return f"{{%{self.pick('', '-', '+')} if {self.name()} {self.pick('', '-', '+')}%}}\n  {body()}\n {{%{self.pick('', '-')} endif {self.pick('', '-')}%}}\n"

    def body(self, depth):
        return "".join(self.stmt(depth) for _ in range(self.r.randrange(1, 3)))

    def template(self):
        self.extra = []
        if self.r.random() < 0.55:
            return "{{ " + self.expr(self.r.randrange(1, 4)) + " }}"
        text = self.body(self.r.randrange(1, 4))
        if self.r.random() < 0.1:  # broken
            at = self.r.randrange(len(text) + 1)
            text = text[:at] + self.pick("", "}", "{%", "'", " ", "\n", "(", "|") + text[at + self.r.randrange(3):]
        return text


PIECES = ["-", "+", "%}", "{%", "{{", "}}", "-%}", "{%-", "{{-", "-}}", "\n", " ", "\n\n", "  ", "|", "|trim", "|tojson", "|length", " is ", " is not ", " not ", " in ", "(", ")", "[", "]", "{#", "#}", "'", "\"", "\\", ".", ",", ":", "=",
          "==", " and ", " or ", " if ", " else ", "{% else %}", "{% endif %}", "{% endfor %}", "{% break %}", "{% continue %}", "{% set x = 1 %}", "{{ loop.index }}", "{{ x }}", "none", "true", "1", "~", "\r\n", "é"]


def mutated(templates, count, seed):
    """Real templates with a few places changed."""
    rng = random.Random(seed)
    sources = sorted({source for _, source in templates})
    chats = list(CHATS.values())
    cases = []
    for _ in range(count):
        text = rng.choice(sources)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            kind = rng.randrange(5)
            if kind == 0:
                text = text[:at] + text[at + rng.randrange(1, 8):]
            elif kind == 1:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            elif kind == 2:
                piece = rng.choice(PIECES)
                text = text[:at] + piece + text[at + len(piece):]
            else:  # at a sign of the language
                marks = [i for i in range(len(text)) if text.startswith(("{%", "%}", "{{", "}}", "|", " is ", "."), i)]
                at = rng.choice(marks) + rng.randrange(3) if marks else at
                text = text[:at] + rng.choice(PIECES + [""]) + text[at + rng.randrange(4):]
        given = {"messages": rng.choice(chats), "special_tokens": TOKENS, "now": 1752148800, "add_generation_prompt": rng.random() < 0.5}
        if rng.random() < 0.5:
            given["tools"] = [TOOL, BARE_TOOL]
        cases.append((text, given))
    return cases


def random_cases(count, seed):
    grammar = Grammar(seed)
    return [case(grammar.template()) for _ in range(count)]


if __name__ == "__main__":
    print(json.dumps(random_cases(5, 1), indent=1))
