"""Renders chat templates with Jinja2 as Hugging Face transformers does; writes templates.json.

Run: python3 make_templates.py   (needs jinja2; transformers' apply_chat_template uses the same
environment: sandboxed, trim_blocks, lstrip_blocks, loop controls, tojson without ASCII escapes)
"""
import json
import pathlib

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
env.filters["tojson"] = tojson
env.globals["strftime_now"] = lambda fmt: {"%d %b %Y": "29 Feb 2024"}[fmt]

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

THINKING = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
"""

BLOCKS = """{% for message in messages %}
    {% if message['role'] == 'skip' %}
        {% continue %}
    {% endif %}
    {% if loop.index > 3 %}{% break %}{% endif %}
    {% set text = message.content.replace('a', 'b').upper()[:4] %}
<|im_start|>{{ message.role | capitalize }}: {{ text ~ '!' }} {{ message.content.split(' ')[0] }} {{ 'x' in message.content }}<|im_end|>
{% endfor %}
{%- macro tag(name, body='-') -%}<{{ name }}>{{ body }}</{{ name }}>{%- endmacro %}
{{ tag('t') }}{{ tag('u', messages[-1].content | length) }}
{% for key, value in extra_map.items() %}{{ key }}={{ value | tojson(indent=2) }};{{ extra_map.get('none', 'dflt') }}{% endfor %}
{{ messages | map(attribute='role') | join(',') }} {{ (messages | selectattr('role', 'equalto', 'user') | list)[0].content | e }}
{{ none is none }} {{ [1, 'a', 2.5] | tojson }} {{ messages[1:][0].content[::-1] }}"""


def case(name, source, messages, **kwargs):
    context = dict(bos_token="<s>", eos_token="</s>", tools=None, add_generation_prompt=True)
    context.update(kwargs)
    rendered = env.from_string(source).render(messages=messages, **context)
    return dict(name=name, source=source, messages=messages, kwargs=kwargs, rendered=rendered)


def say(role, content, **more):
    return dict(role=role, content=content, **more)


TALK = [say("system", " Be brief.\n"), say("user", " Hi! \n"), say("assistant", "Hello."), say("user", "Bye ü")]
CALL = [dict(type="function", id="c1", function=dict(name="f", arguments=dict(b=[1, 2.5, None], a="é\"<x>")))]
TOOL_TALK = [say("user", "go"), say("assistant", "", tool_calls=CALL), say("tool", "42", tool_call_id="c1")]
TOOLS = [dict(type="function", function=dict(name="f", description="d'e", parameters=dict(type="object", properties={})))]
THOUGHT = [say("user", "q"), say("assistant", "<think>\nhm\n</think>\n\nA"), say("user", "r"), say("assistant", "<think>\nso\n</think>\n\nB")]

cases = [
    case("llama3 talk", LLAMA3, TALK),
    case("llama3 tools", LLAMA3, TOOL_TALK, tools=TOOLS, date_string="1 Jan 2025"),
    case("thinking talk", THINKING, TALK, enable_thinking=False),
    case("thinking history", THINKING, THOUGHT, add_generation_prompt=False),
    case("thinking tools", THINKING, TOOL_TALK, tools=TOOLS),
    case("mistral talk", MISTRAL, TALK),
    case("blocks", BLOCKS, [say("skip", "s"), say("user", "a banana x"), say("assistant", "zz yy")], extra_map={"k": [1, {"z": "ü"}]}),
]
path = pathlib.Path(__file__).parent / "templates.json"
path.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
