"""The official `anthropic` package against a running server: messages, stream, counts, ends, tools, errors.

    python anthropic_client.py BASE_URL          e.g. http://127.0.0.1:8000 (without /v1)

Prints one line per check, then `N passed, 0 failed`; exits 1 at the first failure.
"""
import sys

import anthropic

base = sys.argv[1]
# Newer packages have no word for it.
GREEDY = {"temperature": 0}
client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
passed = 0


def check(name, holds, detail=""):
    global passed
    if not holds:
        sys.exit(f"FAILED {name}: {detail}")
    passed += 1
    print(f"ok {name}")


def ask(text, **options):
    options = {"max_tokens": 40, "extra_body": GREEDY, **options}
    return client.messages.create(model=model, messages=[{"role": "user", "content": text}], **options)


model = client.get("/v1/models", cast_to=object)["data"][0]["id"]
QUESTION = "What is the capital of France?"

whole = ask(QUESTION)
text = whole.content[0].text
check("a message answers Paris", "Paris" in text, text)
check("its end is a word of the API", whole.stop_reason in ("end_turn", "max_tokens"), whole.stop_reason)
check("usage counts both sides", whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 10 and whole.usage.output_tokens > 0, whole.usage)

with client.messages.stream(model=model, max_tokens=40, extra_body=GREEDY, messages=[{"role": "user", "content": QUESTION}]) as stream:
    streamed = "".join(stream.text_stream)
    final = stream.get_final_message()
check("a stream equals the whole", streamed == text, streamed)
check("the package puts the stream together", final.content[0].text == text and final.stop_reason == whole.stop_reason, final)
check("a stream's usage is the whole's", final.usage.output_tokens == whole.usage.output_tokens, final.usage)

count = client.messages.count_tokens(model=model, messages=[{"role": "user", "content": QUESTION}]).input_tokens
check("counted tokens are those of the prompt", count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens, count)
blocks = ask([{"type": "text", "text": QUESTION}], system=[{"type": "text", "text": "Answer in one word."}])
check("blocks and a system prompt are taken", blocks.content[0].type == "text" and len(blocks.content[0].text) > 0)
check("max_tokens ends an answer", ask("Count to one hundred.", max_tokens=3).stop_reason == "max_tokens")
stopped = ask("Say: one two three four five", stop_sequences=["e"], max_tokens=60)
check("a stop sequence ends an answer and is named", (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "e"), stopped)

weather = {"name": "get_weather", "description": "Weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"], "additionalProperties": False}}
question = [{"role": "user", "content": "What is the weather in Oslo?"}]
asked = dict(model=model, max_tokens=80, extra_body=GREEDY, tools=[weather], tool_choice={"type": "any", "disable_parallel_tool_use": True})
called = client.messages.create(messages=question, **asked)
use = called.content[0]
check("a call that must come keeps to its schema", (called.stop_reason, use.type, use.name) == ("tool_use", "tool_use", "get_weather")
      and use.input["unit"] in "CF" and len(use.input) == 2, called)
with client.messages.stream(messages=question, **asked) as stream:
    final = stream.get_final_message()
check("the package puts a streamed call together", final.stop_reason == "tool_use" and [block.input for block in final.content] == [use.input], final)
count = client.messages.count_tokens(model=model, messages=question, tools=[weather]).input_tokens
check("tools count as part of the prompt", count == called.usage.input_tokens + called.usage.cache_read_input_tokens, count)
result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny, 21 degrees"}]}
said = client.messages.create(messages=[*question, {"role": "assistant", "content": called.content}, result], **{**asked, "tool_choice": {"type": "none"}})
check("a call and its result are taken back", said.content[0].type == "text" and len(said.content[0].text) > 0, said)


def fails(name, kind, call):
    try:
        call()
    except kind as error:
        check(name, error.body["type"] == "error" and error.body["error"]["message"], error.body)
    else:
        check(name, False, "no error")


fails("another model is 404", anthropic.NotFoundError,
      lambda: client.messages.create(model="claude-x", max_tokens=5, messages=[{"role": "user", "content": "x"}]))
fails("an image is refused", anthropic.BadRequestError,
      lambda: ask([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]))
fails("thinking with a budget is refused", anthropic.BadRequestError,
      lambda: ask("x", thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000))
print(f"{passed} passed, 0 failed")
